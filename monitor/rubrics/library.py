"""All rubrics that can be named: the shipped ones and the configured ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from monitor.rubrics.files import Guides, Read, Survey, Wrong, read_file, survey_file, survey_inline
from monitor.rubrics.kinds.graded import GradedSpec
from monitor.rubrics.rubric import Rubric
from monitor.settings.document import ConfigurationError, Document, Fault


class UnknownRubric(KeyError):
    """No rubric has this name; the message names the nearest one."""

    def __str__(self) -> str:
        return str(self.args[0])


class RubricLibrary:
    """Rubrics by name. Never changed: `with_configured` gives a new one, so that a reload is all or nothing."""

    def __init__(self, shipped: Mapping[str, Rubric], configured: Mapping[str, Rubric] | None = None) -> None:
        self._shipped = dict(shipped)
        self._rubrics = {**shipped, **(configured or {})}

    @classmethod
    def shipped(cls, folder: Path) -> RubricLibrary:
        """The rubrics of the shipped folder, one or more in each `*.yaml`. Raises ConfigurationError."""
        read = [item for path in sorted(folder.glob("*.yaml")) for item in read_file(path)]
        faults = list(_named_twice(read))
        if faults:
            raise ConfigurationError(faults)
        return cls({item.rubric.name: item.rubric for item in read})

    def with_configured(self, files: Sequence[Path], document: Document | None = None) -> RubricLibrary:
        """The shipped rubrics with those of the files and of the configuration's own `rubrics`. Raises ConfigurationError
        with all faults found: also for a name given twice, and for a shipped one shadowed without `override: true`.
        """
        library, found = self.survey(files, document)
        if found.faults:
            raise ConfigurationError(found.faults)
        return library

    def survey(self, files: Sequence[Path], document: Document | None = None) -> tuple[RubricLibrary, Survey]:
        """The same with all that is right, and with all that was found beside it."""
        found = Survey()
        for path in files:
            found.add(survey_file(path, self.guides))
        if document is not None:
            found.add(survey_inline(document, self.guides))
        named: list[Read | Wrong] = [*found.read, *found.wrong]
        found.faults += [*_named_twice(named), *self._shadowing(named)]
        return RubricLibrary(self._shipped, {item.name: item.rubric for item in found.read}), found

    @property
    def guides(self) -> Guides:
        """The shipped graded rubrics, for `guide:`."""
        return {name: rubric.spec for name, rubric in self._shipped.items() if isinstance(rubric.spec, GradedSpec)}

    def _shadowing(self, named: Sequence[Read | Wrong]) -> Iterator[Fault]:
        for item in named:
            name, override = item.name, item.override
            if name in self._shipped and override is False:
                yield item.fault("name", f"{name!r} is a shipped rubric; choose another name, or add `override: true`")
            elif override and name not in self._shipped:
                yield item.fault("override", f"no shipped rubric is called {name!r}: leave `override` out")

    def get(self, name: str) -> Rubric:
        """The rubric of that name. Raises UnknownRubric."""
        rubric = self._rubrics.get(name)
        if rubric is None:
            near = difflib.get_close_matches(name, self._rubrics, n=1, cutoff=0.6)
            hint = f"did you mean `{near[0]}`?" if near else f"the rubrics are {', '.join(sorted(self._rubrics))}"
            raise UnknownRubric(f"no rubric is called {name!r}; {hint}")
        return rubric

    def is_shipped(self, name: str) -> bool:
        """Whether the rubric of that name is the shipped one."""
        return name in self._shipped and self._rubrics[name] is self._shipped[name]

    def __iter__(self) -> Iterator[Rubric]:
        return iter(sorted(self._rubrics.values(), key=lambda rubric: rubric.name))

    def __len__(self) -> int:
        return len(self._rubrics)

    def __contains__(self, name: str) -> bool:
        return name in self._rubrics


def _named_twice(named: Sequence[Read | Wrong]) -> Iterator[Fault]:
    first: dict[str, Read | Wrong] = {}
    for item in named:
        earlier = first.setdefault(item.name, item)
        if earlier is not item:
            line = earlier.document.fault((*earlier.path, "name"), "").line
            place = f"{earlier.document.file}:{line}"
            yield item.fault("name", f"{item.name!r} is taken by the rubric at {place}")
