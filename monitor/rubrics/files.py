"""Reading rubric documents: YAML in, rubrics out, every fault as `file:line: key: reason`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from monitor.rubrics.kinds.catalogue import KINDS
from monitor.rubrics.kinds.graded import GradedSpec
from monitor.rubrics.programs import program_place
from monitor.rubrics.rubric import Rubric, rubric_from
from monitor.settings.document import (
    ConfigurationError,
    Document,
    Fault,
    survey_documents,
    unknown_key,
    validation_faults,
)

KeyPath = tuple[str | int, ...]
Guides = Mapping[str, GradedSpec]
"""Shipped graded rubrics that others may take instructions and levels from, by name."""


@dataclass(frozen=True, slots=True)
class Read:
    """A rubric with the place that it was read from, for faults found later."""

    rubric: Rubric
    document: Document
    path: KeyPath = ()

    @property
    def name(self) -> str:
        """The rubric's name."""
        return self.rubric.name

    @property
    def override(self) -> bool:
        """Whether it may shadow a shipped one."""
        return self.rubric.spec.override

    def fault(self, key: str, reason: str) -> Fault:
        """A fault at a key of this rubric."""
        return self.document.fault((*self.path, key), reason)


@dataclass(frozen=True, slots=True)
class Wrong:
    """A rubric with faults: what can be read of it. `override` is None where that is not known."""

    name: str
    override: bool | None
    document: Document
    path: KeyPath = ()

    def fault(self, key: str, reason: str) -> Fault:
        """A further fault at a key of this rubric."""
        return self.document.fault((*self.path, key), reason)


@dataclass(slots=True)
class Survey:
    """What was found in rubric documents: rubrics, those with faults, and the faults. `complete` says that the names of all are known."""

    read: list[Read] = field(default_factory=list)
    wrong: list[Wrong] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    complete: bool = True

    def add(self, other: Survey) -> None:
        """Take in what was found elsewhere."""
        self.read += other.read
        self.wrong += other.wrong
        self.faults += other.faults
        self.complete &= other.complete


class _Refused(Exception):
    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__()
        self.faults = list(faults)


def read_file(path: Path, guides: Guides | None = None) -> list[Read]:
    """The rubrics of one file. Raises ConfigurationError with all faults found."""
    return _all_right(survey_file(path, guides))


def read_text(text: str, file: str, guides: Guides | None = None) -> list[Read]:
    """The rubrics of a text that came from `file`: one in each YAML document. Raises ConfigurationError with all faults found."""
    return _all_right(survey_text(text, file, guides))


def _all_right(found: Survey) -> list[Read]:
    if found.faults:
        raise ConfigurationError(found.faults)
    return found.read


def survey_file(path: Path, guides: Guides | None = None) -> Survey:
    """The rubrics of one file, with faults told beside those that are right."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        return Survey(faults=[Fault(str(path), 0, "", f"cannot be read: {reason}")], complete=False)
    return survey_text(text, str(path), guides)


def survey_text(text: str, file: str, guides: Guides | None = None) -> Survey:
    """The rubrics of a text that came from `file`, with faults told beside those that are right."""
    try:
        documents = survey_documents(text, file)
    except ConfigurationError as error:
        return Survey(faults=list(error.faults), complete=False)
    found = survey_items([(document, (), document.data) for document in documents if document.data is not None], guides)
    repeated = [(path, fault) for document in documents for path, fault in document.repeated]
    found.faults[:0] = [fault for _, fault in repeated]
    found.complete &= ("name",) not in dict(repeated)
    return found


def survey_inline(document: Document, guides: Guides | None = None) -> Survey:
    """The rubrics of a configuration's own `rubrics` list, with faults told beside those that are right."""
    items = document.data.get("rubrics") if isinstance(document.data, Mapping) else None
    listed = items if isinstance(items, list) else []
    return survey_items([(document, ("rubrics", index), item) for index, item in enumerate(listed)], guides)


def survey_items(items: Sequence[tuple[Document, KeyPath, Any]], guides: Guides | None = None) -> Survey:
    """Rubrics from (document, path in it, data), with faults told beside those that are right."""
    found = Survey()
    for document, path, data in items:
        try:
            found.read.append(_read_item(document, path, data, guides or {}))
        except _Refused as refused:
            found.faults += refused.faults
            name = data.get("name") if isinstance(data, Mapping) else None
            if isinstance(name, str) and name:
                override = data.get("override", False)
                found.wrong.append(Wrong(name, override if isinstance(override, bool) else None, document, path))
            else:
                found.complete = False
    return found


def _read_item(document: Document, path: KeyPath, data: Any, guides: Guides) -> Read:
    if not isinstance(data, Mapping):
        raise _Refused([document.fault(path, "a rubric is a map with `name` and `kind`")])
    document, data = _one_threshold(document, path, dict(data))
    data = _statement(document, path, data)
    kind = _kind(document, path, data)
    if kind == "graded" and "guide" in data:
        data = _guided(document, path, data, guides)
    if kind == "code":
        data = _placed(document, path, data)
    model = KINDS[kind].spec
    try:
        return Read(rubric_from(model.model_validate(data)), document, path)
    except ValidationError as error:
        raise _Refused(validation_faults(error, document, model, path)) from error


def _one_threshold(document: Document, path: KeyPath, data: dict[str, Any]) -> tuple[Document, dict[str, Any]]:
    """`pass_threshold` is another word for `threshold`."""
    if "pass_threshold" not in data:
        return document, data
    if "threshold" in data:
        raise _Refused([document.fault((*path, "pass_threshold"), "is the same as `threshold`: give one of them")])
    data["threshold"] = data.pop("pass_threshold")
    lines = document.lines
    line = lines.get((*path, "pass_threshold"), document.line)
    return replace(document, lines={**lines, (*path, "threshold"): line}), data


def _statement(document: Document, path: KeyPath, data: dict[str, Any]) -> dict[str, Any]:
    """The shortest form: a name and a statement are a rubric of one property."""
    if "statement" not in data:
        return data
    text = data.pop("statement")
    if data.get("kind", "properties") != "properties" or "properties" in data:
        raise _Refused(
            [document.fault((*path, "statement"), "makes a rubric of one property: leave `kind` and `properties` out")]
        )
    if not isinstance(text, str) or not text.strip():
        raise _Refused(
            [document.fault((*path, "statement"), "should be a sentence that is true or false of the answer")]
        )
    return {**data, "kind": "properties", "properties": [{"id": "statement", "text": text}]}


def _kind(document: Document, path: KeyPath, data: Mapping[str, Any]) -> str:
    kind = data.get("kind")
    known = ", ".join(KINDS)
    if kind is None:
        raise _Refused([document.fault((*path, "kind"), f"is missing: one of {known}; or give a `statement`")])
    if not isinstance(kind, str) or kind not in KINDS:
        raise _Refused([document.fault((*path, "kind"), f"should be one of {known}")])
    return kind


def _guided(document: Document, path: KeyPath, data: dict[str, Any], guides: Guides) -> dict[str, Any]:
    name = data.pop("guide")
    if not isinstance(name, str) or name not in guides:
        hint = unknown_key(str(name), list(guides)).replace("is no key here", "is no shipped guide")
        raise _Refused([document.fault((*path, "guide"), hint.replace("the keys are", "the guides are"))])
    if "levels" in data:
        raise _Refused([document.fault((*path, "levels"), "come from the guide: give `guide` or `levels`")])
    own = {"name", "kind", "description", "owner", "override"}
    guide = guides[name].model_dump(mode="json", exclude_defaults=True, exclude=own)
    return {**guide, **data}


def _placed(document: Document, path: KeyPath, data: dict[str, Any]) -> dict[str, Any]:
    """Where the program of a `code` rubric is run and which one it is: told by the file, never written in it."""
    for key in ("folder", "content"):
        if key in data:
            raise _Refused(
                [document.fault((*path, key), "is no key here: the program runs in the folder of this file")]
            )
    return {**data, **program_place(data, document.file)}


def rubric_schema() -> dict[str, Any]:
    """JSON Schema of one rubric document, for editors."""
    definitions: dict[str, Any] = {}
    branches: list[dict[str, Any]] = []
    for name, kind in KINDS.items():
        schema = kind.spec.model_json_schema(ref_template="#/$defs/{model}")
        definitions |= schema.pop("$defs", {})
        _written_form(name, schema)
        definitions[f"{name}_rubric"] = schema
        branches.append({"$ref": f"#/$defs/{name}_rubric"})
    return {"title": "A rubric", "description": "One YAML document.", "anyOf": branches, "$defs": definitions}


def _written_form(kind: str, schema: dict[str, Any]) -> None:
    """What may be written besides the model's own keys: `pass_threshold`, `guide`, `statement`."""
    properties, required = schema["properties"], schema["required"]
    properties["kind"] = {"const": kind}
    required[:] = [key for key in required if key != "kind"] + ["kind"]
    if "threshold" in properties:
        properties["pass_threshold"] = {"type": "number", "description": "The same as `threshold`."}
    if kind == "graded":
        properties["guide"] = {
            "type": "string",
            "description": "A shipped graded rubric to take instructions and levels from.",
        }
        required[:] = [key for key in required if key not in ("levels", "threshold")]
    if kind == "code":
        del properties["folder"], properties["content"]
    if kind == "properties":
        properties["statement"] = {"type": "string", "description": "The shortest form: a rubric of one property."}
        required[:] = [key for key in required if key not in ("properties", "kind")]
