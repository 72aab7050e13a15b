"""Logfire's own integrations: whole requests and responses, or a list of message events, as JSON attributes."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.gen_ai_events import read_message_events
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.definitions import definitions_of
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.messages import messages_of
from monitor.assembly.record import Record
from monitor.assembly.values import decode, number_of


class Logfire(Convention):
    """Spans with `request_data`, `response_data` or `events`."""

    name = "logfire"
    words = frozenset({"logfire"})

    def recognises(self, record: Record) -> bool:
        """Logfire's keys with a request or a response."""
        return "logfire" in record.shape.prefixes and (
            "request_data" in record.attributes or "response_data" in record.attributes
        )

    def read(self, record: Record) -> Facts:
        """A model call's facts."""
        reader = Reader(record, self.name)
        attributes = record.attributes
        request, response = decode(attributes.get("request_data")), decode(attributes.get("response_data"))
        events = decode(attributes.get("events"))
        if isinstance(events, list):
            pairs = [(str(e.get("event.name", "")), e) for e in events if isinstance(e, Mapping)]
            read_message_events(reader, pairs, "events")
        if isinstance(request, Mapping) and ("messages" in request or "input" in request):
            reader.classify(SpanClass.MODEL, "request_data")
            _request(reader, request)
        if isinstance(response, Mapping):
            _response(reader, response)
        return reader.facts


def _request(reader: Reader, request: Mapping[str, object]) -> None:
    given = messages_of(request.get("messages", request.get("input")), "user")
    if given:
        reader.put(Field.INPUT, given, "request_data")
    reader.instructions(request.get("system", request.get("instructions")), "request_data")
    model = request.get("model")
    if isinstance(model, str):
        reader.put(Field.MODEL, model, "request_data")
    tools = definitions_of(request.get("tools") or ())
    if tools:
        reader.put(Field.DEFINITIONS, tools, "request_data")


def _response(reader: Reader, response: Mapping[str, object]) -> None:
    chosen = messages_of(response.get("message", response), "assistant")
    if chosen:
        reader.put(Field.OUTPUT, chosen, "response_data")
    usage = response.get("usage")
    if isinstance(usage, Mapping):
        for field, keys in (
            (Field.INPUT_TOKENS, ("prompt_tokens", "input_tokens")),
            (Field.OUTPUT_TOKENS, ("completion_tokens", "output_tokens")),
        ):
            number = next((n for key in keys if (n := number_of(usage.get(key))) is not None), None)
            if number is not None:
                reader.put(field, number, "response_data")
