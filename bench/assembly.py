"""`python -m bench assembly`: invocations per second of one core and the memory that assembly needs, at 10,000 to 1,000,000 spans.

Three measurements, each size in a process of its own:

`turns`  traces of 8 spans (an agent, three model calls with a growing history of 1.5 to 6 kB, two tools, a retrieval, a web request), one
         after the other as the settler takes them. Only assembly is timed, not the making of the spans.
`tree`   one trace of so many spans: an agent with tools, half of them sub-agents. The settler takes none above `assembly.max_spans`.
`open`   open traces of 8 spans in the index of what has not settled: bytes per trace beside those on disk.

Time is processor time. `growth` is the time per span (or bytes per trace) over that of the smallest size: 1.0 is linear.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from collectors.span import Resource, Scope, Span

SIZES = {"turns": (10_000, 100_000, 1_000_000), "tree": (1_000, 10_000, 100_000), "open": (10_000, 100_000, 1_000_000)}
SECOND = 1_000_000_000
START = 1_790_000_000 * SECOND
RESOURCE = Resource({"service.name": "desk", "deployment.environment.name": "bench"})
WORDS = (
    "order",
    "table",
    "for",
    "two",
    "at",
    "seven",
    "moved",
    "to",
    "the",
    "garden",
    "because",
    "guest",
    "asked",
    "kindly",
)


def main(arguments: Sequence[str]) -> int:
    """Run all measurements in processes of their own and print a table, or be one of them."""
    parser = argparse.ArgumentParser(prog="python -m bench assembly", description=__doc__)
    parser.add_argument("--only", choices=tuple(SIZES), action="append", help="one of the measurements (default: all)")
    parser.add_argument("--most", type=int, default=1_000_000, metavar="N", help="leave out larger sizes")
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "SIZE"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.measure:
        name, size = given.measure
        print(json.dumps(MEASURES[name](int(size))))
        return 0
    for name in given.only or tuple(SIZES):
        _table(name, [size for size in SIZES[name] if size <= given.most])
    return 0


def _table(name: str, sizes: Sequence[int]) -> None:
    first: float | None = None
    for size in sizes:
        command = [sys.executable, "-m", "bench", "assembly", "--measure", name, str(size)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found: dict[str, Any] = json.loads(done.stdout)
        cost = found.pop("cost")
        first = cost if first is None else first
        shown = "  ".join(f"{key} {value:,}" for key, value in found.items())
        print(f"{name:6} {size:>9,}  {shown}  growth {cost / first:.2f}", flush=True)


def turns(count: int) -> dict[str, Any]:
    """Assemble so many spans in traces of 8."""
    from monitor.assembly import AssemblyContext, assemble
    from monitor.model.invocation import SettledBy

    context = AssemblyContext(SettledBy.ROOT_ENDED, "otlp")
    rng = random.Random(7)
    assemble(turn(rng, 0), [], context)  # what is made once is not the trace's
    before, spent, made = _peak(), 0.0, 0
    for number in range(count // 8):
        spans = turn(rng, number)
        began = time.process_time()
        made += len(assemble(spans, [], context))
        spent += time.process_time() - began
    return {
        "invocations": made,
        "invocations_per_cpu_s": round(made / spent),
        "spans_per_cpu_s": round(count / spent),
        "peak_mb": round(_peak() / 1024),
        "grown_mb": round((_peak() - before) / 1024),
        "cost": spent / count,
    }


def tree(count: int) -> dict[str, Any]:
    """Assemble one trace of so many spans."""
    from monitor.assembly import AssemblyContext, assemble
    from monitor.model.invocation import SettledBy

    spans = large_trace(random.Random(7), count)
    before, began = _peak(), time.process_time()
    made = assemble(spans, [], AssemblyContext(SettledBy.MAX_AGE, "otlp"))
    spent = time.process_time() - began
    return {
        "tool_calls": sum(len(one.invocation.tool_calls) for one in made),
        "cpu_s": round(spent, 2),
        "spans_per_cpu_s": round(count / spent),
        "peak_mb": round(_peak() / 1024),
        "grown_mb": round((_peak() - before) / 1024),
        "cost": spent / count,
    }


def open_traces(count: int) -> dict[str, Any]:
    """Keep so many open traces of 8 spans in the index."""
    from collectors.otlp.request import Item
    from collectors.sink import Signal
    from monitor.intake.index import Arrival, Index
    from monitor.intake.settling import SettlingRules
    from monitor.model.run import JournalPosition

    index = Index(SettlingRules(), max_open_items=1 << 60, max_indexed=1 << 60)
    before, began = _resident(), time.process_time()
    for number in range(count):
        trace_id, root = number.to_bytes(16, "big"), b"\0" * 7 + b"\1"
        items = [
            Item(trace_id, bytes([0] * 7 + [1 + at]), root if at else b"", START, START + SECOND) for at in range(8)
        ]
        position = JournalPosition(number // 10_000, number % 10_000)
        index.note(Arrival(position, Signal.TRACES, "otlp", 1000.0 + number / 1000, 1.0, list(enumerate(items))))
    per_trace = (_resident() - before) * 1024 / count
    return {
        "bytes_per_trace": round(per_trace),
        "grown_mb": round(per_trace * count / 1e6),
        "noted_per_cpu_s": round(count / (time.process_time() - began)),
        "cost": per_trace,
    }


MEASURES: dict[str, Callable[[int], dict[str, Any]]] = {"turns": turns, "tree": tree, "open": open_traces}


def turn(rng: random.Random, number: int) -> list[Span]:
    """The 8 spans of one turn, in the order in which they end."""
    trace_id = f"{number + 1:032x}"
    system = json.dumps([{"type": "text", "content": _words(rng, 300)}])
    told = [_text("user", _words(rng, 500))]
    spans: list[Span] = []
    for step in range(3):
        said = _text("assistant", _words(rng, 400)) if step == 2 else _asks(rng, number * 3 + step)
        attributes = {
            **_chat(1200 + 700 * step, 90),
            "gen_ai.system_instructions": system,
            "gen_ai.input.messages": json.dumps(told),
            "gen_ai.output.messages": json.dumps([said]),
        }
        spans.append(_span(trace_id, 2 + step * 2, "chat small-1", attributes, parent=1, at=step * 2))
        if step == 2:
            break
        asked, answer = said["parts"][0], _words(rng, 900)
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": asked["name"],
            "gen_ai.tool.call.id": asked["id"],
            "gen_ai.tool.call.arguments": json.dumps(asked["arguments"]),
            "gen_ai.tool.call.result": answer,
        }
        spans.append(_span(trace_id, 3 + step * 2, "execute_tool search", attributes, parent=1, at=step * 2 + 1))
        told = [
            *told,
            said,
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": asked["id"], "response": answer}]},
        ]
    retrieval = {"gen_ai.operation.name": "retrieval", "gen_ai.data_source.id": "menu"}
    spans.append(_span(trace_id, 7, "retrieval menu", retrieval, parent=1, at=1))
    request = {"http.request.method": "POST", "server.address": "models.example", "http.response.status_code": 200}
    spans.append(_span(trace_id, 8, "POST", request, parent=2, at=0))
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "host",
        "gen_ai.conversation.id": f"conv-{number % 200}",
        "gen_ai.input.messages": json.dumps(told[:1]),
        "gen_ai.output.messages": json.dumps([said]),
    }
    return [*spans, _span(trace_id, 1, "invoke_agent host", agent, at=0, length=8)]


def large_trace(rng: random.Random, count: int) -> list[Span]:
    """One agent with `count` spans: rounds of a model call and a tool, every other tool a sub-agent with a model call of its own."""
    trace_id = f"{1:032x}"
    asked = json.dumps([_text("user", "Do all of it.")])
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": asked}
    spans = [_span(trace_id, 1, "invoke_agent host", {**agent, "gen_ai.agent.name": "host"}, at=0, length=count)]
    numbers: Iterator[int] = iter(range(2, count + 1))
    for number in numbers:
        said = _asks(rng, number)
        call = said["parts"][0]
        spoken = {"gen_ai.input.messages": asked, "gen_ai.output.messages": json.dumps([said])}
        spans.append(_span(trace_id, number, "chat small-1", {**_chat(50, 9), **spoken}, parent=1, at=number))
        tool = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call["name"],
            "gen_ai.tool.call.id": call["id"],
            "gen_ai.tool.call.arguments": json.dumps(call["arguments"]),
            "gen_ai.tool.call.result": "done",
        }
        place = next(numbers, 0)
        if place:
            spans.append(_span(trace_id, place, "execute_tool search", tool, parent=1, at=place, length=2))
        inner = next(numbers, 0) if place % 2 else 0
        if inner:
            named = {**agent, "gen_ai.agent.name": f"helper {number % 7}"}
            spans.append(_span(trace_id, inner, "invoke_agent helper", named, parent=place, at=place, length=2))
    return spans


def _span(
    trace_id: str, number: int, name: str, attributes: dict[str, Any], *, parent: int = 0, at: int = 0, length: int = 1
) -> Span:
    return Span(
        trace_id=trace_id,
        span_id=f"{number:016x}",
        parent_span_id=f"{parent:016x}" if parent else "",
        name=name,
        kind=1,
        start_time_unix_nano=START + at * SECOND,
        end_time_unix_nano=START + (at + length) * SECOND,
        attributes=attributes,
        resource=RESOURCE,
        scope=Scope("bench"),
    )


def _chat(given: int, said: int) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "example",
        "gen_ai.request.model": "small-1",
        "gen_ai.response.model": "small-1-2026",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": given,
        "gen_ai.usage.output_tokens": said,
        "server.address": "models.example",
    }


def _words(rng: random.Random, length: int) -> str:
    return " ".join(rng.choices(WORDS, k=length // 6))


def _text(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def _asks(rng: random.Random, number: int) -> dict[str, Any]:
    call = {"type": "tool_call", "id": f"call_{number}", "name": "search", "arguments": {"query": _words(rng, 60)}}
    return {"role": "assistant", "parts": [call]}


def _peak() -> int:
    """The most memory that this process has had, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _resident() -> int:
    """The memory that this process has, in KiB; the most that it had where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return _peak()
    return pages * resource.getpagesize() // 1024
