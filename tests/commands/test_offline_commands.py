"""Commands that need no daemon: init, check, schema, rubric, reconstruct, score, and their exit statuses."""

from __future__ import annotations

import io
import json
import os
import threading
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest
import yaml

from monitor.cli import COMMANDS, LATER, main
from monitor.resources import config_folder
from monitor.rubrics.kinds.catalogue import KINDS
from tests.support.judge_server import judge_server

DEMO = config_folder() / "demo"
WORSE = str(DEMO / "restaurant-booking.worse.otlp.jsonl")
DEFAULT = str(config_folder() / "rubricd.yaml")
GOOD = str(DEMO / "restaurant-booking.good.otlp.jsonl")


def lines(text: str) -> list[dict[str, object]]:
    """JSON Lines as objects."""
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - LATER))
def test_help_has_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` of each command ends with an example of it."""
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"rubricd {name}" in shown.partition("example")[2]


def test_init_writes_what_check_finds_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fresh folder holds a right configuration with a rubric of each kind; a second init overwrites nothing and ends with 2."""
    folder = tmp_path / "my monitor"
    assert main(["init", str(folder)]) == 0
    kinds = {
        document.get("kind", "properties")
        for document in yaml.safe_load_all((folder / "rubrics" / "example.yaml").read_text())
    }
    assert kinds == set(KINDS)
    assert f"next: rubricd check -c '{folder}/rubricd.yaml' " in capsys.readouterr().out
    assert main(["check", "-c", str(folder / "rubricd.yaml")]) == 0
    assert "rubricd.yaml: right" in capsys.readouterr().out
    (folder / "rubricd.yaml").write_text("logging: {level: debug}\n")
    assert main(["init", str(folder)]) == 2
    assert (folder / "rubricd.yaml").read_text() == "logging: {level: debug}\n"


def test_check_tells_the_most_a_day_can_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Calls follow from cap, rubrics and samples; limits of the judge bound tokens and USD; the host is named."""
    file = tmp_path / "rubricd.yaml"
    file.write_text(
        "judges: {default: {model: m, base_url: 'https://judge.example/v1', limits: {usd_per_day: 2}, prices: {input_per_million: 1, output_per_million: 4}}}\n"
        "rubrics: [{name: polite, statement: 'Is polite.', num_samples: 3}]\n"
        "monitors: {q: {rubrics: [polite, intent_resolution], sample: {max_per_hour: 10}}}\n"
    )
    assert main(["check", "-c", str(file), "--json"]) == 0
    (found,) = lines(capsys.readouterr().out)
    (judge,) = found["judges"]  # type: ignore[misc]
    assert judge["calls_per_day"] == 10 * 24 * (3 + 1)
    assert judge["usd_per_day"] == 2
    assert judge["host"] == "judge.example"


def test_schemas_take_what_is_right_and_refuse_what_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    """The printed JSON Schemas accept the shipped files and refuse an unknown key."""
    assert main(["schema", "configuration"]) == 0
    configuration = json.loads(capsys.readouterr().out)
    assert main(["schema", "rubrics"]) == 0
    rubrics = json.loads(capsys.readouterr().out)
    for file in (config_folder() / "rubricd.yaml", config_folder() / "init" / "rubricd.yaml"):
        jsonschema.validate(yaml.safe_load(file.read_text()), configuration)
    for file in sorted((config_folder() / "rubrics").rglob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text()):
            jsonschema.validate(document, rubrics)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"assembly": {"settle_afer": "1s"}}, configuration)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "x", "kind": "graded", "levls": {}}, rubrics)


def test_rubrics_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The list names each shipped rubric; what `show` prints is the rubric itself; an unknown name is status 2 with the nearest one."""
    assert main(["rubric", "list", "--json"]) == 0
    names = {item["name"] for item in lines(capsys.readouterr().out)}
    assert {"intent_resolution", "groundedness", "run_succeeded"} <= names
    assert main(["rubric", "show", "run_succeeded"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["name"] == "run_succeeded"
    assert main(["rubric", "show", "run_suceeded"]) == 2
    assert "did you mean `run_succeeded`?" in capsys.readouterr().err


def test_reconstruct_prints_contract_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Each recorded run is one invocation by start time, with tool calls in order and the failed run's error."""
    assert main(["reconstruct", "--json", WORSE]) == 0
    found = lines(capsys.readouterr().out)
    assert len(found) == 5
    assert [item["started_at"] for item in found] == sorted(item["started_at"] for item in found)
    assert [len(item["tool_calls"]) for item in found] == [1, 2, 1, 4, 2]  # type: ignore[arg-type]
    assert sum(item["error"] is not None for item in found) == 1
    assert {item["agent_version"] for item in found} == {"1.5.0"}


def test_reconstruct_explains_where_fields_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    """With --explain the answer names the span and the attribute that it was read from."""
    assert main(["reconstruct", "--json", "--explain", GOOD]) == 0
    first = lines(capsys.readouterr().out)[0]
    origins = {item["field"]: item for item in first["provenance"]}  # type: ignore[attr-defined]
    assert set(origins) >= {"user_input", "final_response"}
    assert all(len(item["span_id"]) == 16 and item["source"] for item in origins.values())


def test_reconstruct_tells_what_was_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Spans whose ids are none make no invocation, and are counted by reason on standard error."""
    spans = [{"traceId": trace, "spanId": span, "name": "invoke_agent a"} for trace, span in (("0" * 32, "1" * 16), ("1" * 32, "0" * 16), ("xy", "1" * 16))]  # fmt: skip
    file = tmp_path / "invalid.json"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    assert main(["reconstruct", "--json", str(file)]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "3 spans or log records were rejected (invalid_id: 3)" in shown.err


def test_score_takes_recordings_and_invocations_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verdicts on recorded OTLP and on the invocations made of it are the same; each has the fields of the contract."""
    main(["reconstruct", "--json", WORSE])
    made = tmp_path / "invocations.jsonl"
    made.write_text(capsys.readouterr().out)
    results = []
    for file in (WORSE, str(made)):
        assert main(["score", file, "--rubric", "run_succeeded", "no_repeated_tool_calls", "--json"]) == 0
        results.append(
            {(item["invocation_id"], item["rubric"]): item["verdict"] for item in lines(capsys.readouterr().out)}
        )
    assert results[0] == results[1]
    assert sorted(results[0].values()) == ["fail", "fail"] + ["pass"] * 8


@pytest.mark.parametrize(
    ("gate", "status"),
    [
        (("--fail-under", "0.8"), 0),
        (("--fail-under", "0.81"), 1),
        (("--fail-under", "0.8", "--on", "lower"), 1),
        (("--fail-under", "2"), 2),
    ],
)
def test_the_gate_of_score(gate: tuple[str, ...], status: int) -> None:
    """Four of five runs pass: the gate holds at 0.8 on the rate, not above it and not on the lower bound; a share over 1 is wrong input."""
    assert main(["score", WORSE, "--rubric", "run_succeeded", *gate]) == status


def test_a_gate_over_nothing_is_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rubric file without a rubric is wrong input that names it; a rubric that applied to nothing does not hold a gate."""
    empty, never = tmp_path / "empty.yaml", tmp_path / "never.yaml"
    empty.write_text("# name: to be written\n")
    never.write_text(
        "{name: never, kind: check, expect: {tool_arguments: {tool: no_such_tool, schema: {type: object}}}}"
    )
    assert main(["score", WORSE, "--rubric", "run_succeeded", str(empty), "--fail-under", "0"]) == 2
    assert f"--rubric {empty}: holds no rubric" in capsys.readouterr().err
    assert main(["score", WORSE, "--rubric", str(never)]) == 0
    assert main(["score", WORSE, "--rubric", str(never), "--fail-under", "0"]) == 1


def test_each_invocation_is_scored_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An invocation given twice, as JSON Lines or as OTLP and its JSON Lines, counts once, by its newest revision."""
    assert main(["reconstruct", "--json", WORSE]) == 0
    runs = lines(capsys.readouterr().out)
    runs[0] |= {"revision": 2, "error": "the payment failed"}
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(f"{json.dumps(one)}\n" for one in runs))
    for files in ([str(file), str(file)], [WORSE, str(file)]):
        assert main(["score", *files, "--rubric", "run_succeeded", "--json"]) == 0
        shown = capsys.readouterr()
        assert f"{len(runs)} invocations were given more than once" in shown.err
        found = lines(shown.out)
        assert len(found) == len(runs)
        assert [one["revision"] for one in found if one["invocation_id"] == runs[0]["id"]] == [2]


def test_what_score_cannot_use_is_told_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A judge that is not there and a JUnit file that cannot be written are wrong input before anything is scored."""
    assert main(["score", WORSE, "--rubric", "run_succeeded", "--judge", "nope"]) == 2
    assert "--judge nope: no judge is called so" in capsys.readouterr().err
    junit = tmp_path / "missing" / "junit.xml"
    assert main(["score", WORSE, "--rubric", "run_succeeded", "--junit", str(junit)]) == 2
    shown = capsys.readouterr()
    assert (shown.out, f"--junit {junit}: cannot be written" in shown.err) == ("", True)


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e308", "4"])
def test_the_demo_lasts_some_seconds(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A length that is no length, or too long or short, is wrong input in a line."""
    assert main(["demo", "--seconds", seconds]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("url", ["http://[::1", "http://", "localhost:8464", "http://host:port"])
@pytest.mark.parametrize(("command", "option"), [(("status",), "--server"), (("check", "-c", DEFAULT), "--against")])
def test_a_wrong_url_is_told_with_its_option(
    command: tuple[str, ...], option: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is no URL is wrong input in a line that names the option it was given by."""
    assert main([*command, option, url]) == 2
    assert capsys.readouterr().err.strip() == f"rubricd: {option} {url}: write a URL such as http://localhost:8464"


def test_junit_tells_fails_from_errors(tmp_path: Path) -> None:
    """A fail is a failure; counts agree with the cases."""
    file = tmp_path / "junit.xml"
    assert main(["score", WORSE, "--rubric", "run_succeeded", "--junit", str(file)]) == 0
    (suite,) = ET.parse(file).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("5", "1", "0")
    assert len(suite.findall("testcase/failure")) == 1


def test_judged_rubrics_are_scored_by_the_configured_judge_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a configuration a judged rubric is status 2 and nothing is sent; with one each invocation is asked about once; too many failures are status 3."""
    with judge_server() as judge:
        file = tmp_path / "rubricd.yaml"
        file.write_text(f"judges: {{default: {{model: m, base_url: '{judge.url}', max_attempts: 1}}}}\n")
        assert main(["score", GOOD, "--rubric", "intent_resolution"]) == 2
        assert judge.count == 0
        assert main(["score", GOOD, "--rubric", "intent_resolution", "-c", str(file), "--json"]) == 0
        assert {item["verdict"] for item in lines(capsys.readouterr().out)} == {"pass"}
        assert judge.count == 8
        judge.mode = "garbage"
        assert main(["score", GOOD, "--rubric", "intent_resolution", "-c", str(file)]) == 3
        assert "8 of 8 evaluations failed (unparseable)" in capsys.readouterr().err


def turns_of(file: Path, *talks: str | None) -> str:
    """A file of invocations, one for each conversation id given, ten seconds apart."""
    told = [
        {
            "id": f"{n:032x}-{n:016x}", "trace_id": f"{n:032x}", "started_at": f"2026-01-01T00:00:{10 * n:02d}Z", "conversation_id": talk,
            "ended_at": f"2026-01-01T00:00:{10 * n + 1:02d}Z", "user_input": f"question {n}", "final_response": f"answer {n}", "completeness": {},
        }
        for n, talk in enumerate(talks, 1)
    ]  # fmt: skip
    file.write_text("".join(f"{json.dumps(one)}\n" for one in reversed(told)))
    return str(file)


def test_conversations_are_reconstructed(capsys: pytest.CaptureFixture[str]) -> None:
    """`--conversations` prints conversations with their turns, as text and as JSON, and says what belongs to none."""
    assert main(["reconstruct", "--conversations", "--json", GOOD]) == 0
    shown = capsys.readouterr()
    found = lines(shown.out)
    assert all(str(one["id"]).startswith("conversation:") and one["turns"] for one in found)
    assert main(["reconstruct", "--json", GOOD]) == 0
    alone = [one for one in lines(capsys.readouterr().out) if one["conversation_id"] is None]
    assert (f"{len(alone)} invocations without a conversation id" in shown.err) is (len(alone) > 1)
    assert main(["reconstruct", "--conversations", GOOD]) == 0
    assert f"{found[0]['id']}  " in capsys.readouterr().out
    assert main(["reconstruct", "--conversations", "--explain", GOOD]) == 2


def test_conversations_are_scored_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--level conversation` scores each conversation once, under the version of conversations; its own JSON is read back."""
    (tmp_path / "r.yaml").write_text("{name: said, kind: check, expect: {required_text: answer 3}}")
    file = turns_of(tmp_path / "turns.jsonl", "a", "b", "a", None)
    score = ["score", file, "--rubric", str(tmp_path / "r.yaml"), "--json"]
    assert main([*score, "--level", "conversation"]) == 0
    shown = capsys.readouterr()
    talks = lines(shown.out)
    assert [(one["invocation_id"], one["verdict"]) for one in talks] == [
        ("conversation:a", "pass"),
        ("conversation:b", "fail"),
    ]
    assert "1 of 4 invocations have no conversation id" in shown.err
    assert main(score) == 0
    runs = lines(capsys.readouterr().out)
    assert len(runs) == 4
    assert {one["rubric_version"] for one in runs}.isdisjoint({one["rubric_version"] for one in talks})


def test_check_prices_conversations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The prompt of a conversation may be longer than that of an invocation, and so is what a day can cost; the cap is in conversations."""
    file = tmp_path / "rubricd.yaml"

    def most(level: str) -> int:
        file.write_text(
            "judges: {default: {model: m}}\nrubrics: [{name: polite, statement: Is polite.}]\n"
            f"monitors: {{q: {{rubrics: [polite], level: {level}}}}}\n"
        )
        assert main(["check", "-c", str(file), "--json"]) == 0
        (found,) = lines(capsys.readouterr().out)
        assert found["level"] == level
        return int(found["judges"][0]["tokens_per_day"])  # type: ignore[index]

    assert most("conversation") > most("invocation")
    assert main(["check", "-c", str(file)]) == 0
    assert "at most 60 invocations an hour" in capsys.readouterr().out


def given(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Let standard input hold the content."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_standard_input_is_a_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`-` gives `reconstruct` and `score` what the file itself gives, OTLP and invocations alike; faults name it, and it is read once."""
    score = ["--rubric", "run_succeeded", "--json"]
    assert main(["reconstruct", GOOD, "--json"]) == 0
    invocations = capsys.readouterr().out
    assert main(["score", GOOD, *score]) == 0
    verdicts = [one["verdict"] for one in lines(capsys.readouterr().out)]
    given(monkeypatch, Path(GOOD).read_bytes())
    assert main(["reconstruct", "-", "--json"]) == 0
    assert capsys.readouterr().out == invocations
    for content in (Path(GOOD).read_bytes(), invocations.encode()):
        given(monkeypatch, content)
        assert main(["score", "-", *score]) == 0
        assert [one["verdict"] for one in lines(capsys.readouterr().out)] == verdicts
    given(monkeypatch, b"{}\n{broken")
    assert main(["reconstruct", "-"]) == 2
    assert "standard input:2: line 1 column 2: no JSON" in capsys.readouterr().err
    assert main(["score", "-", "-", *score]) == 2
    assert "standard input can be read only once" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", None)
    assert main(["reconstruct", "-"]) == 2
    assert "standard input is closed" in capsys.readouterr().err
    assert main(["reconstruct", "a" * 5000]) == 2
    assert "cannot be read: File name too long" in capsys.readouterr().err


def test_a_pipe_is_read_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What can be read only once, such as the output of a command that a shell gives as a file, loses nothing by being looked at first."""
    assert main(["reconstruct", GOOD, "--json"]) == 0
    content = capsys.readouterr().out.encode()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    assert main(["score", str(pipe), "--rubric", "run_succeeded", "--json"]) == 0
    writer.join()
    assert len(lines(capsys.readouterr().out)) == content.count(b"\n")
