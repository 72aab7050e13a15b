"""A team's own evaluators: real programs, good ones and those that hang, eat memory, flood or break."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import SystemClock
from monitor.judging.programs import judge_without_model, run_program
from monitor.judging.worker import EvaluationWorkers
from monitor.model.conversation import conversation
from monitor.model.run import Query
from monitor.model.verdict import ErrorType, Judgement, Outcome
from monitor.resources import config_folder
from monitor.rubrics.files import read_file
from monitor.rubrics.kinds.code import Code, CodeSpec
from monitor.rubrics.kinds.kind import ReplyFault
from monitor.rubrics.rubric import Rubric
from monitor.rubrics.version import definition, from_definition, rubric_version
from monitor.store.sqlite import SqliteStore
from tests.judging.test_worker import pend, states
from tests.support.judging import call, invocation, rubric

READS = "import json, sys\ninvocation = json.load(sys.stdin)\n"


def made(folder: Path, program: str, keys: str = "", command: str = "[python, rules.py]") -> Rubric:
    """A `code` rubric whose program lies beside its file."""
    (folder / "rules.py").write_text(program)
    file = folder / "rubric.yaml"
    line = "" if "function:" in keys else f"command: {command.replace('python', sys.executable)}\n"
    file.write_text(f"name: rules\nkind: code\n{line}{keys}\n")
    (read,) = read_file(file)
    return read.rubric


async def ran(folder: Path, program: str, keys: str = "", **other: Any) -> Judgement:
    return await run_program(made(folder, program, keys, **other), invocation(call("book", {"party": 4})))


async def written_pid(folder: Path) -> int:
    """The number that a program writes into `pid`, once it is there."""
    async with asyncio.timeout(30):
        while not (folder / "pid").exists() or not (folder / "pid").read_text():
            await asyncio.sleep(0.01)
    return int((folder / "pid").read_text())


def said(text: str) -> Any:
    return Code().read_output(CodeSpec(name="x", command=("x",)), text)


async def test_a_program_judges(tmp_path: Path) -> None:
    """The program reads the invocation's JSON and its verdict, score, explanation and criteria are taken."""
    program = READS + (
        "party = invocation['tool_calls'][0]['arguments']['party']\n"
        "print(json.dumps({'verdict': 'pass', 'score': 0.75, 'explanation': f'party of {party}',\n"
        "    'criteria': [{'id': 'size', 'score': 1.0, 'explanation': 'small'}, {'id': 'pets', 'score': None}]}))"
    )
    result = await ran(tmp_path, program)
    assert (result.outcome, result.score, result.explanation) == (Outcome.PASS, 0.75, "party of 4")
    assert [(item.id, item.score, item.applicable) for item in result.criteria] == [("size", 1.0, True), ("pets", None, False)]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "outcome", "score"),
    [
        ('{"verdict": "fail"}', Outcome.FAIL, 0.0),
        ('{"score": 0.5}', Outcome.PASS, 0.5),
        ('{"score": 0.49}', Outcome.FAIL, 0.49),
        ('{"verdict": "not_applicable", "explanation": "no booking"}', Outcome.NOT_APPLICABLE, None),
        ('{"verdict": "unjudgeable", "reason": "missing:history"}', Outcome.UNJUDGEABLE, None),
    ],
)
def test_what_output_means(text: str, outcome: Outcome, score: float | None) -> None:
    """A verdict decides, a score alone is held against the threshold, inclusive; what was not judged has no score."""
    result = said(text)
    assert (result.outcome, result.score) == (outcome, score)


@pytest.mark.parametrize(
    "text",
    [
        "", "pass", "[]", "{}", '{"verdict": "Pass"}', '{"verdict": true}', '{"score": 1.1}', '{"score": true}', '{"score": "1"}',
        '{"score": NaN}', '{"verdict": "pass"} trailing', '{"verdict": "pass", "criteria": [{"score": 1}]}',
        '{"verdict": "pass", "criteria": {"a": 1}}', '{"verdict": "pass", "score": 7}', "[" * 100_000,
    ],
)  # fmt: skip
def test_other_output_is_an_error(text: str) -> None:
    """Nothing is guessed from output that is not a verdict, and the message does not repeat it."""
    fault = said(text)
    assert isinstance(fault, ReplyFault)
    assert fault.type is ErrorType.EVALUATOR_FAILED
    assert "trailing" not in fault.message


@pytest.mark.parametrize(
    ("program", "keys", "message"),
    [
        ("import time\ntime.sleep(60)", "timeout: 300ms", "ran longer than its timeout of 0.3 s"),
        ("while True: pass", "timeout: 400ms", "ran longer than its timeout of 0.4 s"),
        ('x = bytearray(400_000_000)\nprint(\'{"verdict": "pass"}\')', "memory: 128MiB", "ended with exit status 1"),
        ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "max_output: 1MiB", "printed more than max_output"),
        ("import sys\nsys.stderr.write('secret detail')\nsys.exit(3)", "", "ended with exit status 3"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "", "was ended by SIGSEGV"),
        ("print('Looks good to me!')", "", "printed no JSON object"),
        ("import sys\nsys.stdin.close()\nprint('{}')", "", "gave neither `verdict` nor `score`"),
    ],
)
async def test_programs_that_break(tmp_path: Path, program: str, keys: str, message: str) -> None:
    """Time, memory, output and exit status are bounded: each a failed evaluation of its own, never a fail, within the deadline."""
    started = time.monotonic()
    result = await ran(tmp_path, program, keys)
    assert time.monotonic() - started < 15
    assert result.outcome is None
    assert result.failure is not None
    assert result.failure.type is ErrorType.EVALUATOR_FAILED
    assert message in result.failure.message
    assert "secret" not in result.failure.message


async def test_what_a_broken_program_said_is_kept_for_people(tmp_path: Path) -> None:
    """Standard error is content: its last line is kept as the explanation, cut to a bound, without a traceback, and not in the message."""
    result = await ran(tmp_path, "import sys\nsys.stderr.write('x' * 100_000 + '\\nthe end\\n---\\n\\n')\nsys.exit(1)")
    assert result.explanation == "the end"
    long = await ran(tmp_path, "import sys\nsys.stderr.write('x' * 100_000)\nsys.exit(1)")
    assert len(long.explanation) == 300
    broken = await ran(tmp_path, READS + "invocation['turns']")
    assert broken.explanation == "KeyError: 'turns'"
    assert broken.failure is not None
    assert broken.failure.message == "the evaluator ended with exit status 1"


@pytest.mark.parametrize("asked", [True, False])
async def test_the_example_judges_both_levels(tmp_path: Path, asked: bool) -> None:
    """The program that `init` writes gives the same verdict on an invocation as on the conversation whose turn it is."""
    for name in ("house_rules.py", "example.yaml"):
        (tmp_path / name).write_text((config_folder() / "init" / "rubrics" / name).read_text())
    (example,) = (one.rubric for one in read_file(tmp_path / "example.yaml") if one.rubric.name == "house_rules")
    single = replace(invocation(call("book", {"party": 4})), user_input="A table for four." if asked else None)
    for given in (single, conversation([single, replace(single, tool_calls=())], "conversation:c")):
        result = await run_program(example, given)
        assert (result.outcome, result.explanation) == (Outcome.PASS if asked else Outcome.FAIL, "1 tool calls")


async def test_a_missing_program(tmp_path: Path) -> None:
    """A program that is not there is a failed evaluation with that reason."""
    result = await ran(tmp_path, "", command="[no-such-program-here]")
    assert result.failure is not None
    assert "program was not found" in result.failure.message


async def test_a_python_function(tmp_path: Path) -> None:
    """`module:function` is called in a child process; what it prints does no harm, and true, false and numbers are verdicts."""
    program = (
        "def judge(invocation):\n    print('chatter')\n    return invocation['user_input'].startswith('A table')\n"
        "def share(invocation):\n    return 0.25\n"
        "def breaks(invocation):\n    raise ValueError(invocation['user_input'])\n"
    )
    assert (await ran(tmp_path, program, "function: 'rules:judge'")).outcome is Outcome.PASS
    assert (await ran(tmp_path, program, "function: 'rules:share'")).score == 0.25
    broken = await ran(tmp_path, program, "function: 'rules:breaks'")
    assert broken.failure is not None
    assert "A table" not in broken.failure.message
    missing = await ran(tmp_path, program, "function: 'rules:nothing'")
    assert missing.failure is not None


async def test_keys_are_not_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the daemon, API keys included, does not reach the program unless the rubric names it."""
    monkeypatch.setenv("SOME_API_KEY", "sk-secret")
    program = "import json, os\nprint(json.dumps({'verdict': 'pass' if 'SOME_API_KEY' in os.environ else 'fail'}))"
    assert (await ran(tmp_path, program)).outcome is Outcome.FAIL
    assert (await ran(tmp_path, program, "environment: [SOME_API_KEY]")).outcome is Outcome.PASS


async def test_what_a_program_started_ends_with_it(tmp_path: Path) -> None:
    """Children of the program are killed with it."""
    program = (
        "import subprocess, sys, time\nchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('pid', 'w').write(str(child.pid))\ntime.sleep(60)"
    )
    running = asyncio.create_task(ran(tmp_path, program, "timeout: 60s"))
    pid = await written_pid(tmp_path)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    for _ in range(200):
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or stat.read_text().split()[2] == "Z":
            return
        await asyncio.sleep(0.01)
    os.kill(pid, 9)
    pytest.fail("the child lives on")


async def test_the_event_loop_goes_on(tmp_path: Path) -> None:
    """While programs run, the loop turns: the longest gap between two turns stays far below the programs' time."""
    rules = made(tmp_path, 'import time\ntime.sleep(1.5)\nprint(\'{"verdict": "pass"}\')')
    gaps, running = [], asyncio.gather(*(run_program(rules, invocation()) for _ in range(4)))
    last = time.perf_counter()
    while not running.done():
        await asyncio.sleep(0.001)
        gaps.append(time.perf_counter() - last)
        last = time.perf_counter()
    assert {item.outcome for item in await running} == {Outcome.PASS}
    assert max(gaps) < 1


async def test_a_cancelled_program_is_killed(tmp_path: Path) -> None:
    """A drain that gives an evaluation up leaves no program behind."""
    rules = made(tmp_path, "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(60)")
    running = asyncio.create_task(run_program(rules, invocation()))
    pid = await written_pid(tmp_path)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_flood_that_nobody_reads_ends_with_the_program(tmp_path: Path) -> None:
    """A program that is killed while its pipes are full is seen to end: no evaluation hangs on it."""
    program = "import sys\nwhile True:\n    sys.stdout.write('x' * 65536)\n    sys.stderr.write('y' * 65536)"
    for _ in range(5):
        async with asyncio.timeout(30):
            assert (await ran(tmp_path, program, "max_output: 64KiB")).outcome is None


async def test_needs(tmp_path: Path) -> None:
    """An invocation that lacks what the rubric requires is unjudgeable, and the program is not run."""
    result = await ran(tmp_path, "open('ran', 'w')", "requires: [history]")
    assert (result.outcome, result.unjudgeable_reason) == (Outcome.UNJUDGEABLE, "missing:history")
    assert not (tmp_path / "ran").exists()


async def test_the_program_is_part_of_the_version(tmp_path: Path) -> None:
    """A changed program is another version; a stored definition runs where it was read and refuses a program that is not its own."""
    first = made(tmp_path, 'print(\'{"verdict": "pass"}\')')
    stored = definition(first, None)
    assert "folder" not in stored["meaning"]
    assert (await judge_without_model(from_definition(stored), invocation())).outcome is Outcome.PASS
    second = made(tmp_path, 'print(\'{"verdict": "fail"}\')')
    assert rubric_version(first, None) != rubric_version(second, None)
    again = await judge_without_model(from_definition(stored), invocation())
    assert again.failure is not None
    assert "not the one of this rubric version" in again.failure.message


async def test_workers_run_programs(tmp_path: Path) -> None:
    """Drawn invocations are judged by the program and by a check beside it; a broken program is a counted error."""
    rules = made(tmp_path, READS + "print(json.dumps({'verdict': 'pass'}))")
    check = rubric("{name: fine, kind: check, expect: {no_error: true}}")
    with_store = SqliteStore(tmp_path)
    try:
        pend(with_store, 3, rules, check)
        workers = EvaluationWorkers(with_store, {}, SystemClock())
        while await workers.turn() or workers._running:
            await workers.settled()
        await workers.settled()
        assert states(with_store) == {"pending": 0, "error": 0, "done": 6}
        verdicts = [item for item in with_store.list_verdicts(Query(limit=100)).items if item["rubric"] == "rules"]
        assert [item["verdict"] for item in verdicts] == ["pass"] * 3
    finally:
        with_store.close()
