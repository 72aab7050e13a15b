"""`rubricd labels` against a running server: draw, fill in, import, report."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from monitor.cli import main
from monitor.commands.client import Server
from monitor.model.run import Level
from monitor.model.verdict import Outcome
from tests.contracts.store_material import (
    SECRET,
    T0,
    draw_and_claim,
    invocation,
    request,
    settlement,
    take_all,
    verdict_of,
)
from tests.server.serving import Served, serving

Run = Callable[..., Any]


@pytest.fixture
async def served(tmp_path: Path) -> Any:
    async with serving(tmp_path) as running:
        yield running


@pytest.fixture
def run(served: Served, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command beside the server; gives exit status, stdout and stderr."""

    async def command(*arguments: str) -> tuple[int, str, str]:
        status = await asyncio.to_thread(main, ["labels", *arguments, "--server", served.url])
        said = capsys.readouterr()
        return status, said.out, said.err

    return command


def judged(served: Served, passes: int = 40, fails: int = 20) -> None:
    """Invocations of which the judge passed some and failed others."""
    named = [invocation(f"n{n}", conversation_id=None, ended_at=int((T0 + n) * 1e9)) for n in range(passes + fails)]
    place = {one.id: n for n, one in enumerate(named)}
    for evaluation in draw_and_claim(served.store, *named):
        outcome = Outcome.PASS if place[evaluation.invocation.id] < passes else Outcome.FAIL
        served.store.finish_evaluations([(evaluation, verdict_of(evaluation, outcome))])


SAMPLE = ("sample", "--monitor", "m", "--rubric", "booking", "--size", "40")


async def test_from_draw_to_report(served: Served, run: Run, tmp_path: Path) -> None:
    """A draw hides the verdict; filled in and imported it gives sensitivity, specificity and corrected rates, also on the monitors' pass rates."""
    judged(served)
    status, out, err = await run(*SAMPLE)
    assert status == 0 and "40 invocations drawn" in err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 40 and rows[0]["user_input"] == SECRET and rows[0]["label"] == ""
    assert not {"verdict", "score", "probability"} & rows[0].keys()
    verdicts = {one["invocation_id"]: one["verdict"] for one in await served.items("/api/v1/verdicts", limit="1000")}
    for number, row in enumerate(rows):
        wrong = number < 4
        row["label"] = (
            {"pass": "fail", "fail": "pass"}[verdicts[row["invocation_id"]]]
            if wrong
            else verdicts[row["invocation_id"]]
        )
    rows[-1]["label"] = ""
    file = tmp_path / "labelled.csv"
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    assert await run("import", str(file), "--labeler", "ada") == (0, "39 labels taken\n", "")
    status, out, _ = await run("report", "--json")
    found = json.loads(out)
    assert (status, found["labels"], found["drawn"], found["refused"]) == (0, 39, 39, None)
    assert found["agreement"]["agreement"] == pytest.approx(35 / 39)
    assert len(found["disagreements"]) == 4
    assert 0.5 < found["sensitivity"]["value"] <= 1 and found["powered"]["interval"][0] < found["powered"]["rate"]
    status, out, _ = await run("report")
    assert status == 0 and "kappa" in out and "Rogan and Gladen" in out
    (monitor,) = await served.items("/api/v1/monitors")
    day = next(rate for rate in monitor["pass_rates"] if rate["window"] == "7d")
    assert day["corrected"]["rate"] == pytest.approx(found["corrected"]["rate"], abs=0.02)


async def test_json_lines_go_round(served: Served, run: Run, tmp_path: Path) -> None:
    """What `--json` drew can be filled in and imported as it is."""
    judged(served, 3, 1)
    _, out, _ = await run(*SAMPLE, "--json")
    file = tmp_path / "labelled.jsonl"
    file.write_text("\n".join(json.dumps({**json.loads(line), "label": "pass"}) for line in out.splitlines()))
    assert await run("import", str(file)) == (0, "4 labels taken\n", "")


async def test_refused_labels_are_told_by_their_line(served: Served, run: Run, tmp_path: Path) -> None:
    """A label about something unknown is refused with its line, the others are taken, and the exit status says so."""
    judged(served, 1, 1)
    known = invocation("n0").id
    file = tmp_path / "own.csv"
    file.write_text(f"invocation_id,rubric,label\n{known},booking,pass\nnobody,booking,fail\n")
    status, out, err = await run("import", str(file))
    assert (status, out) == (1, "1 labels taken, 1 refused\n") and ":3: " in err


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("invocation_id,rubric,label\nx,booking,good\n", ":2: label: should be one of pass, fail"),
        ("invocation_id,label\nx,pass\n", ":1: has no column rubric"),
        ('{"invocation_id": "x", "rubric"', ":1: is no JSON object"),
        ("invocation_id,rubric,label\nx,booking,\n", "no row has a label"),
    ],
)
async def test_a_wrong_file_is_exit_2(run: Run, tmp_path: Path, text: str, right: str) -> None:
    """The message names the line and what would be right; nothing is sent."""
    file = tmp_path / "wrong.csv"
    file.write_text(text)
    status, out, err = await run("import", str(file))
    assert (status, out) == (2, "") and right in err


async def test_unknown_names_and_nothing_judged(served: Served, run: Run) -> None:
    """An unknown monitor is exit 2 with those that are known; nothing judged, or labelled, is exit 1."""
    status, _, err = await run("sample", "--monitor", "x", "--rubric", "booking")
    assert status == 2 and "the monitors are m" in err
    assert (await run("sample", "--monitor", "m", "--rubric", "booking"))[0] == 1
    assert (await run("sample"))[0] == 2
    assert (await run("report"))[0] == 1


async def test_a_report_of_an_unknown_monitor(run: Run) -> None:
    """It is wrong input that names those that are known."""
    status, _, err = await run("report", "--monitor", "nope")
    assert status == 2 and "no monitor is called 'nope'; the monitors are m" in err


async def test_a_row_of_several_lines_is_told_by_its_first(served: Served, run: Run, tmp_path: Path) -> None:
    """A refused label of a row whose text has line breaks is told by the line that the row begins at."""
    judged(served, 1, 1)
    file = tmp_path / "own.csv"
    file.write_text(
        f'invocation_id,rubric,label,comment\n{invocation("n0").id},booking,pass,"a\nb"\nnobody,booking,fail,"c\nd\ne"\n'
    )
    status, _, err = await run("import", str(file))
    assert status == 1 and f"{file}:4: no such" in err


@pytest.mark.parametrize("answer", [[], {"items": 3}, {"items": [1]}, "text"])
async def test_what_answers_unlike_a_rubricd(
    run: Run, tmp_path: Path, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program behind the URL ends each action with 3 in a line."""
    monkeypatch.setattr(Server, "request", lambda *_, **__: answer)
    file = tmp_path / "own.csv"
    file.write_text("invocation_id,rubric,label\nx,booking,pass\n")
    for action in (SAMPLE, ("import", str(file)), ("report",)):
        status, out, err = await run(*action)
        assert (status, out) == (3, "") and "not as a rubricd does" in err


async def test_formulas_are_defused(served: Served, run: Run) -> None:
    """A text that a spreadsheet would run is written with a quote in front."""
    one = invocation("x", user_input="=1+1", conversation_id=None)
    (evaluation,) = draw_and_claim(served.store, one)
    served.store.finish_evaluations([(evaluation, verdict_of(evaluation))])
    _, out, _ = await run(*SAMPLE)
    assert next(csv.DictReader(io.StringIO(out)))["user_input"] == "'=1+1"


@pytest.mark.parametrize(
    ("items", "parameter"),
    [
        ([{"invocation_id": "x", "rubric": "booking", "label": "good"}], "items[0].label"),
        ([{"rubric": "booking", "label": "pass"}], "items[0].invocation_id"),
        ([{"invocation_id": "x", "rubric": "booking", "label": "pass", "verdict": "pass"}], "items[0].verdict"),
        ([7], "items[0]."),
    ],
)
async def test_the_api_names_the_wrong_item(served: Served, items: list[Any], parameter: str) -> None:
    """A wrong label in a body is 400 with its place; nothing of the body is kept."""
    async with served.session.post(f"{served.url}/api/v1/labels", json={"items": items}) as answer:
        found = await answer.json()
    assert (answer.status, found["parameter"]) == (400, parameter)


async def test_a_conversation_is_labelled_by_all_that_was_said(served: Served, run: Run) -> None:
    """The column of the request holds every turn up to the last answer, which is the answer to be labelled."""
    for n, (question, answer) in enumerate((("A table?", "Which day?"), ("Friday.", "Booked."))):
        start = int((T0 + n) * 1e9)
        one = invocation(f"t{n}", user_input=question, final_response=answer, started_at=start, ended_at=start + 10**9)
        served.store.save_traces([settlement(one, monitors=(), conversation_monitors=("m",))])
    served.store.complete_conversations(T0 + 50, ("m",), T0 + 60)
    served.store.execute_run(request(tick=T0 + 70, level=Level.CONVERSATION), take_all)
    (evaluation,) = served.store.claim_evaluations(10, T0 + 80, 60)
    served.store.finish_evaluations([(evaluation, verdict_of(evaluation))])
    _, out, _ = await run(*SAMPLE)
    (row,) = csv.DictReader(io.StringIO(out))
    assert row["invocation_id"] == "conversation:conversation-1"
    assert row["user_input"] == "User: A table?\n\nAgent: Which day?\n\nUser: Friday."
    assert row["final_response"] == "Booked."
