"""Every fault at once: what is wrong in one place does not hide what is wrong in another, and is not told a second time as something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monitor.configuration import load_configuration
from monitor.model.wire import invocation_json
from monitor.settings.document import ConfigurationError
from monitor.settings.load import survey_text
from tests.contracts.store_material import invocation

SHADOWING = "name: run_succeeded\nstatement: It ran.\n"
WRONG_RUBRIC = "name: mine\nkind: graded\nlevels: {1: bad, 2: good}\nthreshold: 9\n"
RIGHT_RUBRIC = "name: yours\nstatement: It is polite.\n"


def keys(text: str, folder: Path, **rubrics: str) -> list[str]:
    """Each fault as `file:line: key`, of a configuration beside the given rubric files."""
    for name, content in rubrics.items():
        (folder / f"{name}.yaml").write_text(content)
    file = folder / "r.yml"
    file.write_text(text)
    try:
        load_configuration(file, {})
    except ConfigurationError as error:
        shown = [str(fault).replace(f"{folder}/", "") for fault in error.faults]
        return [": ".join(one.split(": ")[:2]) for one in shown]
    return []


FILES = "rubric_files: ['*.yaml']\n"

TOGETHER = [
    ("monitors: {m: {select: {agnt: '*'}, rubrics: [run_suceeded]}}\n", ["monitors.m.rubrics[0]", "monitors.m.select.agnt"]),
    ("monitors: {m: {rubrics: [5, run_suceeded]}}\n", ["monitors.m.rubrics", "monitors.m.rubrics[1]"]),
    ("monitors: {m: {rubrics: {run_suceeded: {objective: 2}}}}\n", ["monitors.m.rubrics.run_suceeded", "monitors.m.rubrics.run_suceeded.objective"]),
    ("monitors: {m: {rubrics: {run_suceeded: 5}}}\n", ["monitors.m.rubrics.run_suceeded", "monitors.m.rubrics.run_suceeded"]),
    ("monitors: {m: {rubrics: {run_suceeded: {judge: nobody}}}}\n", ["monitors.m.rubrics.run_suceeded", "monitors.m.rubrics.run_suceeded.judge"]),
    ("monitors: {m: {labels: {job: a}}, n: {rubrics: [run_suceeded], schedule: {cron: '* *'}}}\n", ["monitors.m.labels.job", "monitors.m.rubrics", "monitors.n.rubrics[0]", "monitors.n.schedule.cron"]),
    ("assembly: {}\nassembly: {max_spans: 0}\nmonitors: {m: {rubrics: [run_suceeded]}}\n", ["assembly", "assembly.max_spans", "monitors.m.rubrics[0]"]),
    ("servre: {}\ncollectors: {otpl: {}}\n", ["servre", "collectors.otpl"]),
    ("assembly: {max_spans: 0}\nrubrics: [{name: run_succeeded, statement: It ran.}]\n", ["assembly.max_spans", "rubrics[0].name"]),
    ("monitors: {m: {rubrics: [run_succeeded], schedule: {cron: '* *', timezone: 5}}}\n", ["monitors.m.schedule.cron", "monitors.m.schedule.timezone"]),
    ("collectors: {tempo: {endpoint: '${env:A}', interval: 5}}\n", ["collectors.tempo.endpoint", "collectors.tempo.interval"]),
    ("storage: {path: '${env:A}${env:B}'}\nserver: {endpoint: x}\n", ["storage.path", "storage.path", "server.endpoint"]),
    ("judges: {default: {model: m, api_key: sk-1}}\nmonitors: {m: {rubrics: [run_suceeded]}}\n", ["judges.default.api_key", "monitors.m.rubrics[0]"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TOGETHER)
def test_a_fault_hides_no_other(text: str, expected: list[str], tmp_path: Path) -> None:
    """Faults of the tree, of collectors, of rubrics and of their names in monitors are told together."""
    assert [one.partition(": ")[2] for one in keys(text, tmp_path)] == expected


def test_rubric_files_are_read_beside_a_wrong_tree(tmp_path: Path) -> None:
    """Shadowing, a wrong rubric and an unknown name are told beside an unknown key of the tree, each in its file."""
    text = FILES + "servre: {}\nmonitors: {m: {rubrics: [mine, yours, run_suceeded]}}\n"
    found = keys(text, tmp_path, a=SHADOWING, b=WRONG_RUBRIC + "---\n" + RIGHT_RUBRIC)
    assert found == ["a.yaml:1: name", "b.yaml:4: threshold", "r.yml:2: servre", "r.yml:3: monitors.m.rubrics[2]"]


def test_a_wrong_rubric_shadows_and_takes_a_name_too(tmp_path: Path) -> None:
    """What a rubric's name does wrong is told beside what else is wrong in it."""
    wrong = WRONG_RUBRIC.replace("mine", "run_succeeded")
    found = keys(FILES, tmp_path, a=wrong, b=RIGHT_RUBRIC, c=WRONG_RUBRIC.replace("mine", "yours"))
    assert found == ["a.yaml:1: name", "a.yaml:4: threshold", "c.yaml:1: name", "c.yaml:4: threshold"]


ALONE = [
    ("judges: {other: {modl: m}}\nmonitors: {m: {rubrics: {coherence: {judge: other}}}}\n", ["judges.other.model", "judges.other.modl"]),
    ("judge: {other: {model: m}}\nmonitors: {m: {rubrics: {coherence: {judge: other}}}}\n", ["judge"]),
    ("rubric_file: ['*.yaml']\nmonitors: {m: {rubrics: [yours]}}\n", ["rubric_file"]),
    ("rubric_files: [5]\nmonitors: {m: {rubrics: [yours]}}\n", ["rubric_files[0]"]),
    ("rubric_files: ['none/*.yaml']\nmonitors: {m: {rubrics: [yours]}}\n", ["rubric_files[0]"]),
    ("rubrics: [text]\nmonitors: {m: {rubrics: [yours]}}\n", ["rubrics[0]"]),
    ("rubrics: [{statement: A.}]\nmonitors: {m: {rubrics: [yours]}}\n", ["rubrics[0].name"]),
    ("server: {endpoint: 5}\ncollectors: {otlp: {protocols: {http: {endpoint: 'localhost:8464'}}}}\n", ["server.endpoint"]),
    ("collectors: []\nserver: {endpoint: 'localhost:4317'}\n", ["collectors"]),
    ("collectors: {tempo: {endpoint: '${env:A}'}}\n", ["collectors.tempo.endpoint"]),
    ("storage: {journal: {max_age: 5}, retention: {verdicts: 2h}}\n", ["storage.journal.max_age"]),
    ("judges: {default: {model: m, limits: {usd_per_day: 5}, prices: {input_per_million: x}}}\nmonitors: {m: {rubrics: [coherence], budget: {usd_per_day: 1}}}\n", ["judges.default.prices.input_per_million", "judges.default.prices.output_per_million"]),
    ("judges: {default: {model: m, prices: {input_per_million: 1}}}\nmonitors: {m: {rubrics: [coherence], budget: {usd_per_day: 1}}}\n", ["judges.default.prices.output_per_million"]),
    ("collectors:\n  otlp: {protocols: {grpc: {endpoint: '${env:A}:4317'}}}\n  otlp/b: {protocols: {http: {endpoint: 'localhost:4317'}}}\n", ["collectors.otlp.protocols.grpc.endpoint"]),
    ("judges: {default: {model: '${env:A}'}}\nmonitors: {m: {rubrics: {coherence: {judge: '${env:B}'}}}}\n", ["judges.default.model", "monitors.m.rubrics.coherence.judge"]),
    ("monitors: {m: {rubrics: [run_succeeded], schedule: {cron: '0 0 * * *', timezone: 5}}}\n", ["monitors.m.schedule.timezone"]),
    ("monitors: {m: {rubrics: [coherence, 5], trust: {golden: {file: g.jsonl}}}}\n", ["monitors.m.rubrics"]),
    ("monitors: []\n", ["monitors"]),
    ("judges: {other: {model: m}}\njudges: {}\nmonitors: {m: {rubrics: {coherence: {judge: other}}}}\n", ["judges"]),
    ("rubrics: [{name: yours, statement: A.}]\nrubrics: []\nmonitors: {m: {rubrics: [yours]}}\n", ["rubrics"]),
    ("monitors: {m: 5}\n", ["monitors.m"]),
    ("monitors: {m: {rubrics: 5}}\n", ["monitors.m.rubrics"]),
    ("monitors: {m: {rubric: [coherence]}}\n", ["monitors.m.rubric", "monitors.m.rubrics"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ALONE)
def test_what_follows_from_a_fault_is_none(text: str, expected: list[str], tmp_path: Path) -> None:
    """A judge, a rubric, an address or a length of time that could not be read is told once: nothing is inferred from its absence."""
    golden = {"id": "a", "rubric": "answered", "label": "pass", "invocation": invocation_json(invocation("a"))}
    (tmp_path / "g.jsonl").write_text(json.dumps(golden))
    assert [one.partition(": ")[2] for one in keys(text, tmp_path)] == expected


def test_rubrics_of_a_wrong_file_are_not_unknown(tmp_path: Path) -> None:
    """A file that is no YAML may hold any rubric; a rubric with a fault is known by its name."""
    text = FILES + "monitors: {m: {rubrics: [mine, yours]}}\n"
    assert keys(text, tmp_path, a="name: [", b=RIGHT_RUBRIC) == ["a.yaml:1: no YAML"]
    assert keys(text, tmp_path, a=WRONG_RUBRIC, b=RIGHT_RUBRIC) == ["a.yaml:4: threshold"]
    assert keys(text, tmp_path, a=WRONG_RUBRIC + "threshold: 9\n", b=RIGHT_RUBRIC) == ["a.yaml:5: threshold"] * 2
    assert keys(text, tmp_path, a="name: mine\n" + RIGHT_RUBRIC.replace("yours", "his"), b=RIGHT_RUBRIC) == [
        "a.yaml:2: name"
    ]


def test_what_is_right_stays_as_it_is_written() -> None:
    """Beside faults the tree holds all that is right, and tells where it is not what the file says."""
    loaded = survey_text("assembly: {max_spans: 0, settle_after: 5s}\nlogging: {level: error}\n", "r.yaml", {})
    assert (loaded.settings.assembly.settle_after, loaded.settings.logging.level) == (5.0, "error")
    assert loaded.sound("logging")
    assert loaded.sound("assembly", "settle_after")
    assert not loaded.sound("assembly")
