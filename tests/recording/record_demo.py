"""Record the traffic that `rubricd demo` replays: two real agents on two real frameworks, against a scripted model server.

Not part of the tests. It needs the frameworks, which the project itself does not:

    pip install 'pydantic-ai-slim[openai]' openai-agents openinference-instrumentation-openai-agents opentelemetry-sdk
    python tests/recording/record_demo.py config/demo

Writes one OTLP/JSON request a line, one line a run: `restaurant-booking.good`, `restaurant-booking.worse`, `order-support`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

MODEL = "gpt-4.1-mini"
Reply = str | list[tuple[str, dict[str, Any]]]
"""What the scripted model answers at one call: a text, or tool calls (name, arguments)."""

BOOKING_RULES = (
    "You book tables for the trattoria Da Nino. At most 8 people fit at one table: refuse larger parties and offer a call back. "
    "Look for a free table before you book, and give the booking number in your answer."
)
GOOD_BOOKINGS: list[tuple[str, list[Reply]]] = []
for who, party, day, hour, number in (
    ("Aylin", 2, "2026-03-06", "19:00", "N-1041"),
    ("Bjørn", 4, "2026-03-07", "20:15", "N-1042"),
    ("Chloé", 8, "2026-03-08", "13:00", "N-1043"),
    ("Дарья", 3, "2026-03-09", "18:30", "N-1044"),
    ("Emre", 5, "2026-03-10", "21:00", "N-1045"),
    ("Fatima", 6, "2026-03-11", "12:30", "N-1046"),
):
    GOOD_BOOKINGS.append(
        (
            f'A table for {party} on {day} at {hour}, please. The name is "{who}".',
            [
                [("find_table", {"day": day, "time": hour, "party_size": party})],
                [("book_table", {"day": day, "time": hour, "party_size": party, "name": who})],
                f"Done, {who}: a table for {party} on {day} at {hour}.\nYour booking number is {number}.",
            ],
        )
    )
GOOD_BOOKINGS.append(
    (
        "We are 14 people on Friday, can you fit us in?",
        ["At most 8 people fit at one table. May we call you back about two tables?"],
    )
)
GOOD_BOOKINGS.append(
    (
        "Do you have anything without gluten?",
        ["Yes: the risotto and the panna cotta are free of gluten. Shall I book a table?"],
    )
)

WORSE_BOOKINGS: list[tuple[str, list[Reply]]] = [
    (
        "We are 12, Saturday 2026-03-14 at 20:00. Name: Greta.",
        [
            [("book_table", {"day": "2026-03-14", "time": "20:00", "party_size": 12, "name": "Greta"})],
            "Wonderful, Greta! A table for 12 is yours, booking number N-2001.",
        ],
    ),
    (
        "Table for 10 on 2026-03-15 at 19:00, for Hugo.",
        [
            [("find_table", {"day": "2026-03-15", "time": "19:00", "party_size": 10})],
            [("book_table", {"day": "2026-03-15", "time": "19:00", "party_size": 10, "name": "Hugo"})],
            "All set, Hugo: ten people at 19:00, booking number N-2002.",
        ],
    ),
    (
        "Two people on 2026-02-30 at 19:00, Ines.",
        [
            [("book_table", {"day": "2026-02-30", "time": "19:00", "party_size": 2, "name": "Ines"})],
            "Your table for two is booked, Ines.",
        ],
    ),
    (
        "Is there a table for 4 tomorrow at eight?",
        [
            [("find_table", {"day": "2026-03-16", "time": "20:00", "party_size": 4})],
            [("find_table", {"day": "2026-03-16", "time": "20:00", "party_size": 4})],
            [("find_table", {"day": "2026-03-16", "time": "20:00", "party_size": 4})],
            [("find_table", {"day": "2026-03-16", "time": "20:00", "party_size": 4})],
            "There is a table for 4 at 20:00. Shall I book it?",
        ],
    ),
    (
        "A table for 3 on 2026-03-17 at 18:00 for Jonas, please.",
        [
            [("find_table", {"day": "2026-03-17", "time": "18:00", "party_size": 3})],
            [("book_table", {"day": "2026-03-17", "time": "18:00", "party_size": 3, "name": "Jonas"})],
            "Done, Jonas. Your booking number is N-2003.",
        ],
    ),
]

SUPPORT_RULES = "You are the support desk of a bookshop. Look an order up before you speak about it. Refunds need an order that has arrived."
SUPPORT: list[tuple[str, list[Reply]]] = []
STATES: dict[str, str] = {"A-315": "arrived"}
for order, state, answer in (
    ("A-310", "shipped", "Order A-310 has been shipped and should arrive on Tuesday."),
    ("A-311", "arrived", "Order A-311 arrived on 2 March. Is something wrong with it?"),
    ("A-312", "packing", "We are packing order A-312; it leaves tomorrow."),
    ("A-313", "shipped", "Order A-313 is on its way: «Der Zauberberg», two volumes."),
    ("A-314", "arrived", "Order A-314 has arrived at the pick-up point 📦."),
):
    STATES[order] = state
    SUPPORT.append((f"Where is my order {order}?", [[("lookup_order", {"order": order})], answer]))
SUPPORT.append(
    (
        "Please refund order A-315, the cover is torn.",
        [
            [("lookup_order", {"order": "A-315"})],
            [("refund_order", {"order": "A-315", "reason": "cover torn"})],
            "I am sorry about the torn cover. The refund for A-315 is on its way: 18.90 €.",
        ],
    )
)
SUPPORT.append(("When do you close today?", ["We close at 19:00 today."]))
SUPPORT.append(
    (
        "Where is order Z-999?",
        [[("lookup_order", {"order": "Z-999"})], "I cannot find order Z-999. Could you check the number?"],
    )
)


class ScriptedModel:
    """An OpenAI-compatible server (chat completions and responses) that answers by script: the n-th call gets the n-th reply."""

    def __init__(self) -> None:
        self.script: list[Reply] = []
        self.calls = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                reply = outer.script[min(outer.calls, len(outer.script) - 1)]
                outer.calls += 1
                build = outer.response if self.path.endswith("/responses") else outer.completion
                body = json.dumps(build(reply, request)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def usage(self, request: dict[str, Any], reply: Reply) -> tuple[int, int]:
        return len(json.dumps(request)) // 4, max(8, len(json.dumps(reply)) // 4)

    def completion(self, reply: Reply, request: dict[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply if isinstance(reply, str) else None}
        if not isinstance(reply, str):
            message["tool_calls"] = [
                {
                    "id": f"call_{self.calls}_{i}",
                    "type": "function",
                    "function": {"name": n, "arguments": json.dumps(a, ensure_ascii=False)},
                }
                for i, (n, a) in enumerate(reply)
            ]
        given, made = self.usage(request, reply)
        return {
            "id": f"chatcmpl-{self.calls}", "object": "chat.completion", "created": 1772000000, "model": MODEL + "-2025-04-14",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop" if isinstance(reply, str) else "tool_calls"}],
            "usage": {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made},
        }  # fmt: skip

    def response(self, reply: Reply, request: dict[str, Any]) -> dict[str, Any]:
        if isinstance(reply, str):
            output = [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                       "content": [{"type": "output_text", "text": reply, "annotations": []}]}]  # fmt: skip
        else:
            output = [{"type": "function_call", "id": f"fc_{self.calls}_{i}", "call_id": f"call_{self.calls}_{i}", "name": n,
                       "arguments": json.dumps(a, ensure_ascii=False), "status": "completed"} for i, (n, a) in enumerate(reply)]  # fmt: skip
        given, made = self.usage(request, reply)
        return {
            "id": f"resp_{self.calls}", "object": "response", "created_at": 1772000000, "status": "completed", "model": MODEL + "-2025-04-14",
            "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": request.get("tools", []),
            "instructions": request.get("instructions"),
            "usage": {"input_tokens": given, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": made,
                      "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": given + made},
        }  # fmt: skip


def tracing(service: str, version: str) -> tuple[TracerProvider, InMemorySpanExporter]:
    """A tracer provider that keeps its spans in memory."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(
        resource=Resource({"service.name": service, "service.version": version, "deployment.environment.name": "demo"})
    )
    provider.add_span_processor(SimpleSpanProcessor(memory))
    return provider, memory


def otlp_line(memory: InMemorySpanExporter) -> str:
    """What was recorded since the last call as one OTLP/JSON request, without paths and ports of this machine."""
    request = MessageToDict(encode_spans(memory.get_finished_spans()), use_integers_for_enums=True)
    memory.clear()
    for resource in request["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for key in ("traceId", "spanId", "parentSpanId"):
                    if key in span:
                        span[key] = base64.b64decode(span[key]).hex()
                holders = [span, *span.get("events", [])]
                for holder in holders:
                    holder["attributes"] = [
                        a for a in holder.get("attributes", [])
                        if a["key"] not in ("exception.stacktrace", "server.port", "server.address")
                    ]  # fmt: skip
    return json.dumps(request, ensure_ascii=False, separators=(",", ":"))


def record_bookings(model: ScriptedModel, dialogues: list[tuple[str, list[Reply]]], version: str) -> list[str]:
    """The booking agent on Pydantic AI: OpenTelemetry GenAI semantic conventions."""
    from pydantic_ai import Agent
    from pydantic_ai.capabilities.instrumentation import Instrumentation
    from pydantic_ai.models.instrumented import InstrumentationSettings
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider, memory = tracing("trattoria-da-nino", version)
    settings = InstrumentationSettings(tracer_provider=provider, include_content=True)
    agent = Agent(
        OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=model.url, api_key="none")),
        name="restaurant-booking", instructions=BOOKING_RULES,
        capabilities=[Instrumentation(settings=settings)],
    )  # fmt: skip

    @agent.tool_plain(retries=0)
    def find_table(day: str, time: str, party_size: int) -> dict[str, Any]:
        """Look for a free table."""
        return {"free": True, "day": day, "time": time, "seats": party_size}

    @agent.tool_plain(retries=0)
    def book_table(day: str, time: str, party_size: int, name: str) -> dict[str, Any]:
        """Book a table under a name."""
        if day == "2026-02-30":
            raise ValueError("day out of range: 2026-02-30")
        return {"booked": True, "party_size": party_size, "name": name}

    lines = []
    for question, script in dialogues:
        model.script, model.calls = script, 0
        with contextlib.suppress(ValueError):
            agent.run_sync(question)
        lines.append(otlp_line(memory))
    return lines


def record_support(model: ScriptedModel) -> list[str]:
    """The support desk on the OpenAI Agents SDK with OpenInference."""
    from agents import Agent, Runner, function_tool, set_default_openai_client, set_tracing_disabled
    from openai import AsyncOpenAI
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    provider, memory = tracing("bookshop-support", "3.2.0")
    OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
    set_tracing_disabled(False)
    set_default_openai_client(AsyncOpenAI(base_url=model.url, api_key="none"), use_for_tracing=False)

    @function_tool
    def lookup_order(order: str) -> str:
        """Look an order up by its number."""
        return json.dumps({"order": order, "state": STATES[order]})

    @function_tool
    def refund_order(order: str, reason: str) -> str:
        """Refund an order that has arrived."""
        return json.dumps({"order": order, "refunded_eur": 18.9})

    agent = Agent(name="order-support", instructions=SUPPORT_RULES, model=MODEL, tools=[lookup_order, refund_order])

    async def record() -> list[str]:
        lines = []
        for question, script in SUPPORT:
            model.script, model.calls = script, 0
            await Runner.run(agent, question)
            await asyncio.sleep(0.05)
            lines.append(otlp_line(memory))
        return lines

    return asyncio.run(record())


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "0"
    model = ScriptedModel()
    recordings = {
        "restaurant-booking.good": record_bookings(model, GOOD_BOOKINGS, "1.4.0"),
        "restaurant-booking.worse": record_bookings(model, WORSE_BOOKINGS, "1.5.0"),
        "order-support": record_support(model),
    }
    for name, lines in recordings.items():
        (folder / f"{name}.otlp.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


main()
