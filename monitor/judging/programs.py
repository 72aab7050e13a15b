"""Running a team's own evaluator: one process for each invocation, with limits of time, memory and output, never on the event loop's time.

Whatever the program does is a value: a judgement, or a failed evaluation with reason `evaluator_failed`. The last line that it wrote to standard
error is kept as the explanation of the failure, for people: content, and erased like it. Of a Python traceback that is the exception; the
lines before it say little to who reads a verdict, and quote the program.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from monitor.judging.looking import judge_deterministic
from monitor.model.invocation import Invocation
from monitor.model.verdict import ErrorType, EvaluationFailure, Judgement, Outcome
from monitor.model.wire import conversation_json, invocation_json
from monitor.rubrics.kinds.code import CodeSpec
from monitor.rubrics.kinds.kind import ReplyFault, is_program
from monitor.rubrics.kinds.needs import unmet
from monitor.rubrics.programs import current_content
from monitor.rubrics.rubric import Rubric

_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR")
_LAUNCH = str(Path(__file__).with_name("launch.py"))
_CALL = str(Path(__file__).with_name("call_function.py"))
_KEPT_ERROR, _SHOWN_ERROR = 2000, 300
"""Bytes of standard error that are looked at, and characters of its last line that are shown."""
_CHUNK = 65_536
_LONGEST_END = 5.0
"""Seconds to wait for the pipes of a killed program: a grandchild that has left its session may hold them open."""


class _Failed(Exception):
    """The program gave no output to read; the message says why and never carries content."""


@dataclass(slots=True)
class _Output:
    """What came out so far."""

    stdout: bytes = b""
    stderr: bytes = b""


async def judge_without_model(rubric: Rubric, invocation: Invocation) -> Judgement:
    """The judgement of a rubric that asks no model: a program is run, what only looks is done in a thread."""
    if is_program(rubric.behaviour):
        return await run_program(rubric, invocation)
    return await asyncio.to_thread(judge_deterministic, rubric, invocation)


async def run_program(rubric: Rubric, invocation: Invocation) -> Judgement:
    """The judgement of a `code` rubric. A cancelled call kills the program."""
    kind, spec = rubric.behaviour, rubric.spec
    assert is_program(kind) and isinstance(spec, CodeSpec)
    lacking = unmet(invocation, kind.needs(spec))
    if lacking is not None:
        return Judgement(Outcome.UNJUDGEABLE, threshold=spec.threshold, unjudgeable_reason=lacking)
    output = _Output()
    try:
        await _check_unchanged(spec)
        await _run(spec, json.dumps(_given(invocation), ensure_ascii=False).encode(), output)
    except _Failed as failed:
        return _failure(spec, str(failed), output)
    said = kind.read_output(spec, output.stdout.decode("utf-8", "replace"))
    return _failure(spec, said.message, output) if isinstance(said, ReplyFault) else said


def _given(invocation: Invocation) -> dict[str, Any]:
    """What a program reads: the invocation, or the conversation as its turns."""
    return conversation_json(invocation) if invocation.turns else invocation_json(invocation)


def _failure(spec: CodeSpec, message: str, output: _Output) -> Judgement:
    failure = EvaluationFailure(ErrorType.EVALUATOR_FAILED, message)
    return replace(Judgement(None, failure=failure, threshold=spec.threshold), explanation=_last_line(output.stderr))


def _last_line(written: bytes) -> str:
    """The last line that says anything; of a long one its beginning."""
    lines = [line.strip() for line in written.decode("utf-8", "replace").splitlines()]
    return next((line for line in reversed(lines) if any(map(str.isalnum, line))), "")[:_SHOWN_ERROR]


async def _check_unchanged(spec: CodeSpec) -> None:
    """A verdict of a version is that of its program: where the file is another one by now, there is none."""
    if await asyncio.to_thread(current_content, spec) != spec.content:
        raise _Failed("the evaluator's program is not the one of this rubric version: it was changed, or is gone")


async def _run(spec: CodeSpec, given: bytes, output: _Output) -> None:
    """Run to the end. Raises _Failed."""
    process = await _start(spec)
    talking = [
        asyncio.ensure_future(part)
        for part in (_feed(process, given), _collect(process, spec, output), _keep_errors(process, output))
    ]
    try:
        async with asyncio.timeout(spec.timeout):
            await asyncio.gather(*talking)
            status = await process.wait()
    except TimeoutError as error:
        raise _Failed(f"the evaluator ran longer than its timeout of {spec.timeout:g} s") from error
    finally:
        for part in talking:
            part.cancel()
        await asyncio.gather(*talking, return_exceptions=True)
        await _end(process)
    if status != 0:
        raise _Failed(_ended_badly(status))


def _ended_badly(status: int) -> str:
    if status == 127:
        return "the evaluator's program was not found"
    if status == -signal.SIGXCPU:
        return "the evaluator used up its processor time (timeout)"
    name = signal.Signals(-status).name if status < 0 and -status in set(signal.Signals) else ""
    return f"the evaluator was ended by {name}" if name else f"the evaluator ended with exit status {status}"


async def _start(spec: CodeSpec) -> asyncio.subprocess.Process:
    command = spec.command or (sys.executable, _CALL, str(spec.function))
    limits = (str(spec.memory), str(math.ceil(spec.timeout) + 1))
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", _LAUNCH, *limits, *command,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            cwd=spec.folder or None, env=_environment(spec), start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise _Failed(f"the evaluator could not be started: {error.strerror}") from error


def _environment(spec: CodeSpec) -> dict[str, str]:
    """Keys of judges and the like are not passed on unless the rubric names them."""
    names = {*_PASSED_ON, *spec.environment}
    return {name: os.environ[name] for name in names if name in os.environ} | {"PYTHONDONTWRITEBYTECODE": "1"}


async def _feed(process: asyncio.subprocess.Process, given: bytes) -> None:
    """A program need not read its input."""
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(given)
        await process.stdin.drain()
        process.stdin.close()
        await process.stdin.wait_closed()


async def _collect(process: asyncio.subprocess.Process, spec: CodeSpec, output: _Output) -> None:
    assert process.stdout is not None
    while chunk := await process.stdout.read(_CHUNK):
        output.stdout += chunk
        if len(output.stdout) > spec.max_output:
            raise _Failed(f"the evaluator printed more than max_output ({spec.max_output} bytes)")


async def _keep_errors(process: asyncio.subprocess.Process, output: _Output) -> None:
    assert process.stderr is not None
    while chunk := await process.stderr.read(_CHUNK):
        output.stderr = (output.stderr + chunk)[-_KEPT_ERROR:]


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill what is left of the program and of what it has started. What it still wrote is read and thrown away: asyncio does not see the
    end of a process while an unread pipe is full.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    assert process.stdout is not None and process.stderr is not None
    with suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST_END):
            await asyncio.gather(_discard(process.stdout), _discard(process.stderr), process.wait())


async def _discard(stream: asyncio.StreamReader) -> None:
    while await stream.read(_CHUNK):
        pass
