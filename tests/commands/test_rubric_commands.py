"""`rubricd rubric import | test | generate`, as they are called, with a scripted judge over HTTP."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.cli import main
from monitor.rubrics.files import read_file
from tests.contracts.store_material import invocation, settlement
from tests.server.serving import serving
from tests.support.judge_server import MARKER, judge_server

FOUNDRY = {"name": "booking", "definition": {"dimensions": [{"id": "a", "description": "x", "weight": 9}]}}
ADK = {"criteria": {"rubric_based_final_response_quality_v1": {"threshold": 0.5, "rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "Is short."}}]}}}  # fmt: skip


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def written(folder: Path, name: str, *objects: Any) -> Path:
    file = folder / name
    file.write_text("\n".join(json.dumps(one) for one in objects))
    return file


def configuration(folder: Path, url: str) -> Path:
    file = folder / "rubricd.yaml"
    file.write_text(
        f'judges: {{default: {{model: m, base_url: "{url}"}}}}\nrubrics: [{{name: short, statement: "The answer is short."}}]\n'
    )
    return file


@pytest.mark.parametrize(("system", "data", "name"), [("foundry", FOUNDRY, "booking"), ("adk", ADK, "rubric_based_final_response_quality_v1")])  # fmt: skip
def test_import_writes_a_rubric_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], system: str, data: Any, name: str
) -> None:
    """The file that comes out is a rubric file; remarks go to stderr; a file that is there is never overwritten."""
    source, target = written(tmp_path, "in.json", data), tmp_path / "out.yaml"
    status, out, err = ran(capsys, "rubric", "import", "--from", system, source, "-o", target)
    assert (status, out) == (0, "")
    assert [item.rubric.name for item in read_file(target)] == [name]
    assert "wrote 1 rubrics" in err
    assert ran(capsys, "rubric", "import", "--from", system, source, "-o", target)[0] == 2
    status, out, _ = ran(capsys, "rubric", "import", "--from", system, source)
    assert (status, out.splitlines()[0]) == (0, f"name: {name}")


def test_import_of_azure_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Result rows are printed as verdicts with errors apart, and as pass rates over what was judged."""
    rows = [
        {"coherence_result": "pass", "coherence_score": 4.0},
        {"coherence_result": "pass", "coherence_score": 9.0},
        {"coherence_status": "skipped"},
    ]
    file = written(tmp_path, "rows.jsonl", *rows)
    status, out, _ = ran(capsys, "rubric", "import", "--from", "azure", file, "--json")
    assert status == 0
    assert [(one["row"], one["verdict"], one["error"] and one["error"]["type"]) for one in map(json.loads, out.splitlines())] == [
        (1, "pass", None), (2, None, "out_of_range"), (3, "not_applicable", None),
    ]  # fmt: skip
    assert "100.0 %" in ran(capsys, "rubric", "import", "--from", "azure", file)[1]


@pytest.mark.parametrize("content", ["", "no json", "{}", "[1]", '{"a": NaN'])
def test_import_of_anything_else(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    """What is not of that system ends with status 2 and names the file."""
    file = tmp_path / "in.json"
    file.write_text(content)
    for system in ("adk", "foundry", "azure"):
        status, _, err = ran(capsys, "rubric", "import", "--from", system, file)
        assert status == 2
        assert err.startswith("rubricd: ")


def example(answer: str, label: str, **other: Any) -> dict[str, Any]:
    return {"invocation": {"user_input": "q", "final_response": answer}, "label": label, "rubric": "short", **other}


def test_a_rubric_is_tested_against_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Agreement, kappa and AC1 of judge and people, by rubric and criterion, with the confusion; `unsure` is not compared; below the least it
    is status 1. The judge passes all but answers with the marker: 3 of 4 agree; kappa 0.5 and AC1 0.529 by their formulas.
    """
    examples = [
        example("fine", "pass", criteria={"statement": "pass"}), example("fine", "fail", criteria={"statement": "no"}), example("fine", "unsure"),
        example(MARKER, "fail"), example("fine", "pass"),
    ]  # fmt: skip
    file = written(tmp_path, "labelled.jsonl", *examples)
    with judge_server() as server:
        arguments = ("rubric", "test", file, "-c", configuration(tmp_path, server.url))
        status, out, _ = ran(capsys, *arguments, "--json", "--min-agreement", "0.75")
        whole, criterion = map(json.loads, out.splitlines())
        assert status == 0
        assert (whole["compared"], whole["examples"], whole["agreement"]) == (4, 5, 0.75)
        assert whole["kappa"] == pytest.approx(0.5)
        assert whole["confusion"] == {"pass": {"pass": 2}, "fail": {"pass": 1, "fail": 1}}
        assert (criterion["criterion"], criterion["agreement"], criterion["compared"]) == ("statement", 0.5, 2)
        status, _, err = ran(capsys, *arguments, "--min-agreement", "0.8")
        assert status == 1
        assert "below --min-agreement 0.8: short" in err
        server.mode = "unauthorized"
        assert ran(capsys, *arguments)[0] == 3


def test_a_labelled_example_may_be_a_conversation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its turns may be as short as a lone invocation; the judge reads all of them, in the order given."""
    turns = [{"user_input": "first", "final_response": MARKER}, {"user_input": "second", "final_response": "fine"}]
    file = written(tmp_path, "labelled.jsonl", {"rubric": "short", "label": "fail", "invocation": {"turns": turns}})
    with judge_server() as server:
        status, out, _ = ran(capsys, "rubric", "test", file, "-c", configuration(tmp_path, server.url), "--json")
        record = server.requests[0]["messages"][1]["content"]
    assert status == 0
    assert json.loads(out.splitlines()[0])["agreement"] == 1.0
    assert record.index("first") < record.index("turn 2 of 2") < record.index("second")


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"label": "pass"}', '{"label": "good", "rubric": "short"}', '{"label": "pass", "rubric": "nothing"}', '{"label": "pass", "rubric": "short", "invocation": {"trace_id": 7}}']
)  # fmt: skip
def test_broken_examples(tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    """An example that cannot be read ends with status 2 and its place, before anything is asked."""
    file = tmp_path / "labelled.jsonl"
    file.write_text(line)
    with judge_server() as server:
        status, _, err = ran(capsys, "rubric", "test", file, "-c", configuration(tmp_path, server.url))
        assert (status, server.count) == (2, 0)
    assert "rubricd: " in err


def test_a_rubric_is_generated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A draft from a prompt comes out as a rubric file; warnings and token use go to stderr; an earlier rubric is shown to the model."""
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("You book tables.")
    with judge_server("draft") as server:
        config = configuration(tmp_path, server.url)
        arguments = ("rubric", "generate", "--name", "booking", "--prompt", prompt, "-c", config)
        status, _, err = ran(capsys, *arguments, "--based-on", "short", "-o", tmp_path / "booking.yaml")
        assert status == 0
        (read,) = read_file(tmp_path / "booking.yaml")
        assert read.rubric.kind == "weighted"
        assert "warning short_prompt (prompt 1)" in err
        assert "1 calls, " in err
        assert "The answer is short." in server.requests[0]["messages"][1]["content"]
        status, out, _ = ran(capsys, *arguments, "--kind", "properties", "--json")
        assert status == 0
        found = json.loads(out)
        assert found["rubric"]["kind"] == "properties"
        assert found["usage"]["requests"] == 1
        assert [one["code"] for one in found["warnings"]] == ["short_prompt", "insufficient_total_input"]
        server.mode = "garbage"
        assert ran(capsys, *arguments)[0] == 3


async def test_a_rubric_is_generated_from_stored_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs that a daemon has stored are shown to the model, redacted and each question once; those without content are left out and counted; who may
    not see content is refused before anything is asked.
    """
    (tmp_path / "prompt.txt").write_text("You book tables.")
    (tmp_path / "token").write_text("right\n")
    runs = [
        replace(invocation(f"r{n}"), user_input=f"Table for {n % 3}, run by anna{n % 3}@example.org") for n in range(6)
    ]
    runs += [replace(invocation("x"), final_response=None), replace(invocation("other"), agent_name="another")]
    with judge_server("draft") as judge:
        asked = ["rubric", "generate", "--name", "booking", "--prompt", str(tmp_path / "prompt.txt"), "-c"]
        asked += [str(configuration(tmp_path, judge.url)), "--stored-agent", str(runs[0].agent_name), "--since", "30d"]
        async with serving(tmp_path, auth={"bearer_token_file": str(tmp_path / "token")}) as served:
            served.store.save_traces([settlement(run) for run in runs])
            assert await asyncio.to_thread(main, [*asked, "--server", served.url]) == 2
            assert judge.count == 0
            capsys.readouterr()
            asked += ["--token-file", str(tmp_path / "token"), "--server", served.url]
            assert await asyncio.to_thread(main, [*asked, "--most", "2"]) == 0
        said = capsys.readouterr()
    shown = judge.requests[0]["messages"][1]["content"]
    assert shown.count("request of the user") == 2
    assert "run by <EMAIL_1>" in shown
    assert "example.org" not in shown
    assert "2 of 7 stored runs" in said.err
    assert "1 have no question or no answer" in said.err
    assert "low_trace_count (traces 1): 2 runs" in said.err


def test_generate_needs_a_base(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without material nothing is asked."""
    with judge_server("draft") as server:
        status, _, err = ran(capsys, "rubric", "generate", "--name", "x", "-c", configuration(tmp_path, server.url))
        assert (status, server.count) == (2, 0)
    assert "--prompt" in err


def test_list_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    """Shipped rubrics are listed with what they need, and shown as they would be written."""
    status, out, _ = ran(capsys, "rubric", "list", "--json")
    assert status == 0
    assert {"name": "run_succeeded", "kind": "check", "needs": "none"}.items() <= next(one for one in map(json.loads, out.splitlines()) if one["name"] == "run_succeeded").items()  # fmt: skip
    assert ran(capsys, "rubric", "show", "tool_selection")[1].startswith("name: tool_selection\nkind: graded\n")
    assert ran(capsys, "rubric", "show", "nothing")[0] == 2
