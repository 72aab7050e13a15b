"""Runs whose parts lie in traces of their own, tied by span links alone: small, by hand, as frameworks and queues write them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from collectors.sink import Signal
from tests.intake.recorded_items import Piece
from tests.intake.traffic import Sent, message, span_id, trace_id, traces

INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = range(1, 6)
QUEUE = {"messaging.system": "kafka", "messaging.destination.name": "orders"}


def linking(span: Sent, *links: tuple[str, str], kind: int = INTERNAL) -> SpanMessage:
    """A span of a kind, with links to spans that are named by trace and name."""
    made = span.message()
    made.kind = kind  # type: ignore[assignment]
    for trace, name in links:
        made.links.add(trace_id=trace_id(trace), span_id=span_id(name))
    return made


def agent(trace: str, parent: str = "", at: float = 0.0, until: float = 9.0, asked: str = "") -> SpanMessage:
    """A run of the agent that is called like its trace. Its span is `<trace>.agent`."""
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": trace,
        "gen_ai.input.messages": message("user", asked or f"Do {trace}."),
        "gen_ai.output.messages": message("assistant", f"Done {trace}."),
    }
    return linking(Sent(trace, f"{trace}.agent", parent, at, until, attributes))


def clerk(trace: str, *messages: dict[str, object], at: float, link: tuple[str, str] | None = None) -> SpanMessage:
    """A run of the agent `clerk` in a trace of its own; the last message is its output."""
    *given, out = messages
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "clerk",
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps([out]),
    }
    return linking(Sent(trace, f"{trace}.agent", "", at, at + 2, attributes), *([link] if link else []))


def lone(trace: str, *messages: dict[str, object], at: float, parent: str = "") -> SpanMessage:
    """A model call `<trace>.chat`, in a trace of its own without a parent; the last message is its output."""
    *given, out = messages
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps([out]),
    }
    return linking(Sent(trace, f"{trace}.chat", parent, at, at + 1, attributes))


def says(role: str, *parts: dict[str, object]) -> dict[str, object]:
    """A message."""
    return {"role": role, "parts": list(parts)}


ASKED = says("user", {"type": "text", "content": "Refund it."})
CALL: dict[str, object] = {"type": "tool_call", "id": "c1", "name": "refund", "arguments": {"n": 1}}
WAITS = says("assistant", {"type": "text", "content": "May I?"}, CALL)
ANSWERED = says("tool", {"type": "tool_call_response", "id": "c1", "response": "paid"})
PAID = says("assistant", {"type": "text", "content": "Paid."})
MORE = says("user", {"type": "text", "content": "And now?"})


def tool(trace: str, at: float = 1.0, until: float = 4.0) -> SpanMessage:
    """A tool run of that agent, `<trace>.tool`."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": f"{trace}_tool",
        "gen_ai.tool.call.arguments": json.dumps({"of": trace}),
        "gen_ai.tool.call.result": json.dumps("ok"),
    }
    return linking(Sent(trace, f"{trace}.tool", f"{trace}.agent", at, until, attributes))


def send(trace: str, parent: str, at: float = 2.0) -> SpanMessage:
    """A message is put into a queue: `<trace>.send`."""
    return linking(Sent(trace, f"{trace}.send", parent, at, at + 0.1, QUEUE), kind=PRODUCER)


def take(trace: str, *links: tuple[str, str], at: float = 3.0, until: float = 8.0) -> SpanMessage:
    """A message is taken out of a queue, and worked off: `<trace>.take`."""
    return linking(Sent(trace, f"{trace}.take", "", at, until, QUEUE), *links, kind=CONSUMER)


def chat(trace: str, parent: str, at: float, until: float) -> SpanMessage:
    """A model call, `<trace>.chat`."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m1",
        "gen_ai.input.messages": message("user", f"Ask {trace}."),
        "gen_ai.output.messages": message("assistant", f"Told {trace}."),
    }
    return linking(Sent(trace, f"{trace}.chat", parent, at, until, attributes))


def set_up(name: str) -> SpanMessage:
    """An agent is made, in a trace of its own."""
    attributes = {
        "gen_ai.operation.name": "create_agent",
        "gen_ai.agent.name": name,
        "gen_ai.system_instructions": f"Be {name}.",
    }
    return linking(Sent(f"{name}.made", f"{name}.made", "", -60.0, -59.0, attributes))


def asking(trace: str, at: float = 0.0) -> list[SpanMessage]:
    """An agent whose tool puts a message into a queue."""
    return [send(trace, f"{trace}.tool", at + 2), tool(trace, at + 1, at + 4), agent(trace, at=at, until=at + 9)]


def worker(trace: str, *links: tuple[str, str], at: float = 3.0) -> list[SpanMessage]:
    """An agent that works off what it takes out of a queue."""
    return [
        tool(trace, at + 1, at + 2),
        agent(trace, f"{trace}.take", at + 0.5, at + 4),
        take(trace, *links, at=at, until=at + 5),
    ]


def executor(trace: str, *links: tuple[str, str], at: float, parent: str = "") -> list[SpanMessage]:
    """An executor of a workflow: its agent runs, and a message goes to the next (`<trace>.message`)."""
    own, ids = f"{trace}.executor", {"executor.id": trace, "executor.type": "AgentExecutor"}
    passed = Sent(trace, f"{trace}.message", own, at + 2, at + 2.1, {"message.source_id": trace, "message.type": "x"})
    process = Sent(trace, own, parent, at, at + 3, ids).message()
    process.name, process.kind = f"executor.process {trace}", INTERNAL  # type: ignore[assignment]
    for other, name in links:
        process.links.add(trace_id=trace_id(other), span_id=span_id(name))
    sent = linking(passed, kind=PRODUCER)
    sent.name = "message.send"
    return [chat(trace, f"{trace}.agent", at + 0.6, at + 1.4), agent(trace, own, at + 0.5, at + 1.5), sent, process]


def workflow(trace: str) -> list[SpanMessage]:
    """A workflow with its first executor, in one trace."""
    run = Sent(trace, f"{trace}.run", "", 0.0, 9.0, {"workflow.id": "w1", "workflow.name": "desk"}).message()
    run.name = "workflow.run"
    return [*executor(trace, at=0.2, parent=f"{trace}.run"), run]


CASES: dict[str, list[SpanMessage]] = {
    "executors over two traces": [*workflow("one"), *executor("two", ("one", "one.message"), at=3.0)],
    "executors over three traces": [
        *workflow("one"), *executor("two", ("one", "one.message"), at=3.0), *executor("three", ("two", "two.message"), at=6.0),
    ],
    "a queue": [*asking("asker"), *worker("worker", ("asker", "asker.send"))],
    "a queue, by what only forwards": [
        *asking("asker"),
        send("relay", "relay.take", 3.5), take("relay", ("asker", "asker.send"), at=3.4, until=3.9),
        *worker("worker", ("relay", "relay.send"), at=4.0),
    ],
    "a queue, by an agent that does nothing else": [
        agent("asker", until=9.0), send("asker", "asker.agent"), *worker("worker", ("asker", "asker.send")),
    ],
    "two workers of one agent": [
        *asking("asker"), *worker("first", ("asker", "asker.send")), *worker("second", ("asker", "asker.tool"), at=3.2),
    ],
    "model calls without agents": [
        linking(Sent("web", "web.root", "", 0.0, 5.0, {"http.route": "/chat"}), kind=SERVER),
        chat("web", "web.root", 0.1, 1.0), send("web", "web.root"),
        take("worker", ("web", "web.send")), chat("worker", "worker.take", 4.0, 5.0),
    ],
    "model calls that ask an agent": [
        linking(Sent("web", "web.root", "", 0.0, 5.0, {"http.route": "/chat"}), kind=SERVER),
        chat("web", "web.root", 0.1, 1.0), send("web", "web.root"), *worker("worker", ("web", "web.send")),
    ],
    "lone model calls of one turn": [
        lone("one", ASKED, WAITS, at=0.0), lone("two", ASKED, WAITS, ANSWERED, PAID, at=2.0), send("two", "two.chat", 2.5),
        take("three", ("two", "two.send"), at=3.0), chat("three", "three.take", 4.0, 5.0),
    ],
    "a batch": [
        *asking("asker"), *asking("other", at=0.5), *worker("worker", ("asker", "asker.send"), ("other", "other.send")),
    ],
    "a new turn": [
        agent("before"),
        linking(Sent("turn", "turn.agent", "", 20.0, 21.0, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "turn"}),
                ("before", "before.agent")),
    ],
    "a run that goes on": [
        clerk("one", ASKED, WAITS, at=0.0), clerk("two", ASKED, WAITS, ANSWERED, PAID, at=9.0, link=("one", "one.agent")),
        lone("two", ASKED, WAITS, ANSWERED, PAID, at=9.5, parent="two.agent"), clerk("three", ASKED, WAITS, ANSWERED, PAID, MORE, PAID, at=20.0, link=("two", "two.agent")),
    ],
    "a run that goes on with what is not here": [clerk("two", ASKED, WAITS, ANSWERED, PAID, at=9.0, link=("one", "one.agent"))],
    "a new turn out of a queue": [agent("before"), *worker("turn", ("before", "before.agent"), at=20.0)],
    "a request without an agent": [
        linking(Sent("web", "web.root", "", 0.0, 5.0, {"http.route": "/chat"}), kind=SERVER), send("web", "web.root"),
        *worker("worker", ("web", "web.send")),
    ],
    "the sender is missing": worker("worker", ("gone", "gone.send")),
    "the sender's trace is here, but not its span": [*asking("asker"), *worker("worker", ("asker", "lost"))],
    "a sender that was set up elsewhere": [
        set_up("asker"), *asking("asker"), *worker("worker", ("asker", "asker.send")),
    ],
    "a circle": [*worker("one", ("two", "two.tool")), *worker("two", ("one", "one.tool"), at=3.5)],
}  # fmt: skip


def forest(
    draw: random.Random,
    kinds: Sequence[str] = ("asker", "worker", "worker", "relay", "executor", "chat", "clerk", "clerk"),
) -> list[SpanMessage]:
    """Two to six traces, each linked to anything in the others: to senders, runs, what is not there, several at a time, in circles."""
    names = [f"t{number}" for number in range(draw.randint(2, 6))]
    return [span for number, name in enumerate(names) for span in _tree(draw, name, names, float(number), kinds)]


def _tree(
    draw: random.Random, name: str, names: Sequence[str], number: float, kinds: Sequence[str]
) -> list[SpanMessage]:
    at = number * draw.choice([1, 1, 1, -0.3]) + draw.random()
    earlier = names[: names.index(name)]
    others = earlier if earlier and draw.random() < 0.75 else [one for one in names if one != name]
    spans = ("send", "send", "send", "tool", "agent", "take", "message", "executor", "lost")
    links = [(other, f"{other}.{draw.choice(spans)}") for other in draw.choices(others, k=draw.choice((1, 1, 1, 1, 2)))]
    kind = draw.choice(kinds)
    if kind == "asker":
        return asking(name, at)
    if kind == "clerk":
        return [clerk(name, ASKED, WAITS, ANSWERED, PAID, at=at, link=links[0])]
    if kind == "executor":
        return executor(name, *links, at=at)
    if kind == "worker":
        below = draw.choice([f"{name}.tool", f"{name}.take", f"{name}.agent"])
        return [*worker(name, *links, at=at), *([send(name, below, at + 1.5)] if draw.random() < 0.7 else [])]
    if kind == "relay":
        return [send(name, f"{name}.take", at + 0.1), take(name, *links, at=at, until=at + 0.5)]
    called = chat(name, f"{name}.take", at + 0.2, at + 0.9)
    return [take(name, *links, at=at), called, send(name, f"{name}.take", at + 1)]


def pieces_of(spans: Sequence[SpanMessage]) -> list[Piece]:
    """Each span as a request of its own."""
    return [Piece(Signal.TRACES, traces(span)) for span in spans]
