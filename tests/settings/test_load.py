"""Reading a configuration file: what is right comes out, and every fault is named with file, line, key and what would be right."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from monitor.settings.document import ConfigurationError
from monitor.settings.load import load_settings, parse_settings
from monitor.settings.tree import Settings

FILE = "rubricd.yaml"


def faults(text: str, environment: dict[str, str] | None = None) -> list[str]:
    """The faults of a text, as they are shown."""
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(text, FILE, environment or {})
    return [str(fault) for fault in caught.value.faults]


def settings(text: str, environment: dict[str, str] | None = None) -> Settings:
    """The tree of a text without faults."""
    return parse_settings(text, FILE, environment or {}).settings


def test_an_empty_file_is_the_defaults() -> None:
    """A file without keys gives the documented defaults."""
    tree = settings("")
    assert tree.assembly.settle_after == 30.0
    assert tree.storage.journal.max_size == 10 * 2**30
    assert tree.metrics.zero_for == 120.0
    assert tree.monitors == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("assembly:\n  settle_afer: 1s\n", "rubricd.yaml:2: assembly.settle_afer: is no key here; did you mean `settle_after`?"),
        ("montors: {}\n", "rubricd.yaml:1: montors: is no key here; did you mean `monitors`?"),
        ("assembly:\n  idle_timeout: 15\n", "rubricd.yaml:2: assembly.idle_timeout: 15 is no duration: write it with a unit"),
        ("storage:\n  journal:\n    max_size: huge\n", "rubricd.yaml:3: storage.journal.max_size: 'huge' is no size"),
        ("judges:\n  default:\n    base_url: http://x\n", "rubricd.yaml:2: judges.default.model: is missing"),
        ("monitors:\n  m:\n    rubrics: []\n", "rubricd.yaml:3: monitors.m.rubrics: should have at least 1 entry"),
        ("monitors:\n  m:\n    rubrics: [a]\n    schedule: {}\n", "rubricd.yaml:4: monitors.m.schedule: give `every` or `cron`"),
        ("monitors:\n  m:\n    rubrics: [a]\n    sample: {rate: 1.5}\n", "rubricd.yaml:4: monitors.m.sample.rate: should be"),
        ("monitors:\n  m:\n    rubrics: [a]\n    level: session\n", "rubricd.yaml:4: monitors.m.level: "),
        ("storage: {database: 'postgresql://db/x'}\n", "rubricd.yaml:1: storage.database: only `sqlite` can be used yet"),
        ("? [a]\n: 2\n", "rubricd.yaml:1: no YAML: line 1: a list or map is no key"),
        ("monitors: &a {m: *a}\n", "rubricd.yaml:1: monitors.m: an alias holds itself"),
        ("a:\n  b: &a\n    c:\n      - d: 1\n        e: *a\n", "rubricd.yaml:5: a.b.c[0].e: an alias holds itself"),
        ("a:\n  - b\n  - &l [1, *l]\n", "rubricd.yaml:3: a[1][1]: an alias holds itself"),
        ("a: &a {x: 1,\n <<: [*a]}\n", "rubricd.yaml:1: a.<<: an alias holds itself"),
        ("a: &a\n  x: {<<: *a}\n", "rubricd.yaml:2: a.x.<<: an alias holds itself"),
        ("a: 1\nb: &a {*a : 1}\n", "rubricd.yaml:2: no YAML: found unconstructable recursive node"),
        ("a: " + "[" * 3000, "rubricd.yaml: no YAML: nested too deeply"),
        ("a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n", "rubricd.yaml:1: no YAML: too large"),
        ("assembly: {max_age: 99999999999999d}\n", "rubricd.yaml:1: assembly.max_age: '99999999999999d' is too long"),
        ("monitors: {m: {rubrics: [a], sample: {max_per_hour: .inf}}}\n", "rubricd.yaml:1: monitors.m.sample.max_per_hour: should be a finite number"),
        ("a: 1\na: 2\n", "rubricd.yaml:2: a: is given twice"),
        ("a: [1,\n", "rubricd.yaml:2: no YAML"),
        ("- a\n- b\n", "rubricd.yaml:1: a configuration is a map of sections"),
        ("a: {}\n---\nb: {}\n", "rubricd.yaml:3: a configuration is one YAML document"),
        ("judges:\n  j:\n    model: m\n    limits: {usd_per_day: 3}\n", "rubricd.yaml:2: judges.j: limits.usd_per_day needs `prices`"),
        (
            "storage:\n  retention: {verdicts: 24h}\n",
            "rubricd.yaml:1: storage: retention.verdicts is too short: make it longer than journal.max_age, which is 1d",
        ),
        ("storage:\n  journal: {max_size: 1B}\n", "rubricd.yaml:2: storage.journal.max_size: is too small: 1MiB at least"),
        ("links:\n  trace: '${env:X'\n", "rubricd.yaml:2: links.trace: has a reference without its end: write ${env:NAME}"),
        ("monitors:\n  m:\n    rubrics: [[a]]\n", "rubricd.yaml:3: monitors.m.rubrics: should be a list of rubrics' names"),
        ("monitors:\n  m:\n    rubrics: [a]\n    sample: {rate: true}\n", "rubricd.yaml:4: monitors.m.sample.rate: should be a number"),
        ("monitors:\n  m:\n    rubrics: [a]\n    sample: {rate: '1'}\n", "rubricd.yaml:4: monitors.m.sample.rate: should be a number, without quotes"),
        ("monitors:\n  m:\n    rubrics: [a]\n    select: {has_error: 'yes'}\n", "rubricd.yaml:4: monitors.m.select.has_error: should be true or false, without quotes"),
        ("monitors:\n  m:\n    rubrics: [a]\n    select: {agent: 5}\n", "rubricd.yaml:4: monitors.m.select.agent: should be a text or a list"),
        ("monitors:\n  m:\n    rubrics: [a]\n    select: {agent: [x, 5]}\n", "rubricd.yaml:4: monitors.m.select.agent[1]: should be a text"),
        ("assembly: {max_spans: true}\n", "rubricd.yaml:1: assembly.max_spans: should be a whole number"),
        ("assembly: {max_spans: 1.5}\n", "rubricd.yaml:1: assembly.max_spans: should be a whole number"),
        ("privacy: {store_content: some}\n", "rubricd.yaml:1: privacy.store_content: should be 'selected', 'all' or 'none'"),
    ],
)  # fmt: skip
def test_a_fault_names_file_line_key_and_what_would_be_right(text: str, expected: str) -> None:
    """Each kind of fault is shown as `file:line: key: reason`."""
    shown = faults(text)
    assert any(fault.startswith(expected) for fault in shown), shown


def test_an_alias_may_be_used_again_and_again() -> None:
    """What holds itself is refused; what is used in several places, one beside the other or merged, is not."""
    tree = settings(
        "judges:\n  default: &j {model: m, limits: &l {tokens_per_day: 5}}\n  second: {<<: *j, timeout: 9s}\n  third: {model: m, limits: *l}\n  fourth: *j\n"
    )
    assert [judge.limits.tokens_per_day for judge in tree.judges.values()] == [5, 5, 5, 5]


def test_all_faults_are_shown_at_once() -> None:
    """Three faults in one file are three lines, in the order of the file."""
    shown = faults("assembly:\n  max_age: 1\n  max_spans: 0\nservre: {}\n")
    assert [fault.split(": ")[0] for fault in shown] == ["rubricd.yaml:2", "rubricd.yaml:3", "rubricd.yaml:4"]


def test_references_to_the_environment_are_expanded() -> None:
    """`${env:VAR}`, its default, and `$$` are replaced in texts."""
    tree = settings(
        'storage: {path: "${env:BASE}/x"}\nlogging: {level: "${env:LEVEL:-warning}"}\nserver: {external_url: "http://a/$${b}"}\n',
        {"BASE": "/data"},
    )
    assert tree.storage.path == "/data/x"
    assert tree.logging.level == "warning"
    assert tree.server.external_url == "http://a/${b}"


def test_numbers_and_truth_values_may_come_from_the_environment() -> None:
    """The environment has no types: what it holds is read as the key needs it, while the same text in the file is a fault."""
    text = "assembly: {max_spans: '${env:SPANS}'}\nmonitors: {m: {rubrics: [a], select: {has_error: '${env:BAD:-true}'}}}\n"
    tree = settings(text, {"SPANS": "20"})
    assert tree.assembly.max_spans == 20
    assert tree.monitors["m"].select.has_error is True
    assert faults(text, {"SPANS": "many"}) == ["rubricd.yaml:1: assembly.max_spans: should be a whole number"]


def _wrong(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Every key of a section and of those below it, with values of each of YAML's types."""
    for name, field in model.model_fields.items():
        here = (*path, name)
        yield from ((here, value) for value in ({"a": {"b": 1}}, [], [[]], 0.5, -1, True, "x", None, {1: 2}))
        for inner, step in _sections(field.annotation):
            yield from _wrong(inner, (*here, *step))


def _sections(annotation: Any) -> Iterator[tuple[type[BaseModel], tuple[str, ...]]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, ()
    for argument in get_args(annotation):
        for inner, step in _sections(argument):
            yield inner, ("name", *step) if get_origin(annotation) is dict else step


def test_no_fault_speaks_of_the_library() -> None:
    """A wrong value at every key of the tree is told in plain words, whatever its type."""
    words = ("valid", "instance", "Tuple", "Dictionary", "List", "after validation", "Input", "cannot be used here")
    told = set()
    for path, value in _wrong(Settings):
        data = value
        for key in reversed(path):
            data = {key: data}
        try:
            parse_settings(json.dumps(data), FILE, {})
        except ConfigurationError as error:
            told |= {fault.reason for fault in error.faults}
    assert len(told) > 30
    assert [reason for reason in told if any(word in reason for word in words)] == []


def test_a_reference_to_nothing_is_a_fault() -> None:
    """A variable that is not set and has no default is named, as is a reference of an unknown form."""
    assert faults('storage: {path: "${env:BASE}"}\n')[0].startswith(
        "rubricd.yaml:1: storage.path: the environment has no BASE"
    )
    assert "${file:x} is no reference" in faults('storage: {path: "${file:x}"}\n')[0]


def test_a_literal_secret_is_refused_and_not_printed() -> None:
    """A key written into the file is a fault, and the fault does not repeat it."""
    shown = faults("judges:\n  default:\n    model: m\n    api_key: sk-very-secret\n")
    assert shown == [
        "rubricd.yaml:4: judges.default.api_key: is a literal secret: write ${env:NAME} instead, or use api_key_file"
    ]


def test_a_secret_from_the_environment_is_taken_and_hidden() -> None:
    """A key from the environment works and does not show in the tree's text."""
    tree = settings("judges: {default: {model: m, api_key: '${env:KEY}'}}\n", {"KEY": "sk-very-secret"})
    key = tree.judges["default"].api_key
    assert key is not None
    assert key.get_secret_value() == "sk-very-secret"
    assert "sk-very-secret" not in repr(tree)


def test_a_secret_that_makes_validation_fail_is_not_printed() -> None:
    """A fault elsewhere in a judge's section does not carry its key."""
    shown = faults("judges: {default: {model: m, timeout: soon, api_key: '${env:KEY}'}}\n", {"KEY": "sk-very-secret"})
    assert "sk-very-secret" not in "\n".join(shown)


def test_paths_count_from_the_file_that_names_them(tmp_path: Path) -> None:
    """Key files are relative to the configuration file; `storage.path` is relative to the working directory."""
    file = tmp_path / "conf" / "rubricd.yaml"
    file.parent.mkdir()
    file.write_text(
        "storage: {path: data}\njudges: {default: {model: m, api_key_file: key}}\nserver: {auth: {bearer_token_file: t}}\n"
    )
    tree = load_settings(file, {}).settings
    assert tree.storage.path == "data"
    assert tree.judges["default"].api_key_file == str(file.parent / "key")
    assert tree.server.auth is not None
    assert tree.server.auth.bearer_token_file == str(file.parent / "t")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A missing file and one that is no text are faults with the file's name."""
    with pytest.raises(ConfigurationError, match=r"missing\.yaml: cannot be read: No such file"):
        load_settings(tmp_path / "missing.yaml", {})
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        load_settings(tmp_path / "binary.yaml", {})
