"""Agent runs as real OpenTelemetry SDK spans, exported by the SDK's own exporters."""

from __future__ import annotations

import json
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

BOOKING_TOOL = {
    "type": "function",
    "name": "book_table",
    "parameters": {"type": "object", "properties": {"party_size": {"type": "integer"}}},
}


def provider(exporter: SpanExporter, agent: str = "shop-bot", version: str = "1.0") -> TracerProvider:
    """A tracer provider that exports each span as it ends."""
    made = TracerProvider(
        resource=Resource({"service.name": agent, "service.version": version, "deployment.environment.name": "test"})
    )
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made


def messages(*texts: tuple[str, str]) -> str:
    """GenAI messages of one text part each, as the JSON that span attributes hold."""
    return json.dumps(
        [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in texts], ensure_ascii=False
    )


def run_agent(
    tracers: TracerProvider,
    agent: str,
    question: str,
    answer: str | None,
    tool: dict[str, Any] | None = None,
    conversation: str | None = None,
) -> str:
    """One agent run with an optional tool call, a turn of a conversation where that is named; returns its trace id."""
    tracer = tracers.get_tracer("test-agent")
    with tracer.start_as_current_span(f"invoke_agent {agent}") as root:
        root.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent})
        root.set_attribute("gen_ai.input.messages", messages(("user", question)))
        if conversation is not None:
            root.set_attribute("gen_ai.conversation.id", conversation)
        with tracer.start_as_current_span("chat gpt-test") as chat:
            chat.set_attributes(
                {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-test", "gen_ai.usage.input_tokens": 10}
            )
            chat.set_attribute("gen_ai.input.messages", messages(("user", question)))
            chat.set_attribute("gen_ai.tool.definitions", json.dumps([BOOKING_TOOL]))
            if answer is not None:
                chat.set_attribute("gen_ai.output.messages", messages(("assistant", answer)))
        if tool is not None:
            with tracer.start_as_current_span(f"execute_tool {tool['name']}") as call:
                call.set_attributes(
                    {
                        "gen_ai.operation.name": "execute_tool",
                        "gen_ai.tool.name": tool["name"],
                        "gen_ai.tool.call.id": "c1",
                    }
                )
                call.set_attribute("gen_ai.tool.call.arguments", json.dumps(tool["arguments"]))
                call.set_attribute("gen_ai.tool.call.result", json.dumps(tool.get("result", "ok")))
        if answer is not None:
            root.set_attribute("gen_ai.output.messages", messages(("assistant", answer)))
        context: trace.SpanContext = root.get_span_context()
    return f"{context.trace_id:032x}"
