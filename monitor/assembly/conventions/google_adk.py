"""Google ADK: `gcp.vertex.agent.*` of telemetry schema 1, and the pseudo spans of both schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.gen_ai import classify
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.definitions import definitions_of
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.messages import lacking, messages_of
from monitor.assembly.record import Record
from monitor.assembly.values import decode, looks_cut, withheld
from monitor.model.invocation import Capture

_PREFIX = "gcp.vertex.agent."
_NOTHING = (None, "", "{}", "N/A", "null", "<not specified>", '{"result": "<not specified>"}')


class GoogleAdk(Convention):
    """Spans of ADK's own tracer."""

    name = "google_adk"
    words = frozenset({"gcp"})

    def recognises(self, record: Record) -> bool:
        """Its attribute prefix; its root has no attributes at all and is told by scope and name together."""
        if "gcp.vertex." in record.shape.heads:
            return True
        return record.span.scope.name == "gcp.vertex.agent" and (not record.attributes or _merged(record))

    def read(self, record: Record) -> Facts:
        """Class, and the contents of schema 1."""
        reader = Reader(record, self.name)
        if _merged(record):
            reader.classify(SpanClass.DUPLICATE, "gen_ai.tool.name")
            return reader.facts
        if not record.attributes and record.span.name == "invocation":
            reader.classify(SpanClass.WORKFLOW, "span name")
            return reader.facts
        reader.text(Field.RUN, _PREFIX + "invocation_id")
        if (
            Field.CLASS not in reader.facts
            and "gen_ai" in record.shape.prefixes
            and _PREFIX + "llm_request" not in record.attributes
        ):
            classify(reader)
        is_tool = record.attributes.get("gen_ai.operation.name") == "execute_tool"
        if is_tool or _PREFIX + "tool_call_args" in record.attributes:
            _tool(reader)
        elif _PREFIX + "llm_request" in record.attributes:
            reader.classify(SpanClass.MODEL, _PREFIX + "llm_request")
            _request(reader, record.attributes.get(_PREFIX + "llm_request"))
            _response(reader, record.attributes.get(_PREFIX + "llm_response"))
        return reader.facts


def _merged(record: Record) -> bool:
    """The pseudo tool span over parallel calls."""
    return record.attributes.get("gen_ai.tool.name") == "(merged tools)" or record.span.name == "execute_tool (merged)"


def _opened(reader: Reader, field: Field, value: Any, source: str) -> Mapping[str, Any] | None:
    """The JSON object in a content attribute; `{}` stands for content that was not recorded."""
    if value is None:
        return None
    if value in _NOTHING or withheld(value):
        reader.put(field, (), source, capture=withheld(value) or Capture.NOT_CAPTURED)
        return None
    decoded = decode(value)
    if isinstance(decoded, Mapping):
        return decoded
    if looks_cut(decoded):
        reader.put(field, (), source, capture=Capture.TRUNCATED)
    return None


def _request(reader: Reader, value: Any) -> None:
    source = _PREFIX + "llm_request"
    request = _opened(reader, Field.INPUT, value, source)
    if request is None:
        return
    given = messages_of(request.get("contents"), "user")
    if given:
        reader.put(Field.INPUT, given, source, capture=lacking(given))
    model = request.get("model")
    if isinstance(model, str) and model:
        reader.put(Field.MODEL, model, source)
    config = request.get("config")
    if isinstance(config, Mapping):
        reader.instructions(config.get("system_instruction"), source)
        tools = definitions_of(config.get("tools") or ())
        if tools:
            reader.put(Field.DEFINITIONS, tools, source)


def _response(reader: Reader, value: Any) -> None:
    source = _PREFIX + "llm_response"
    response = _opened(reader, Field.OUTPUT, value, source)
    if response is None:
        return
    content = response.get("content")
    if isinstance(content, Mapping):
        chosen = messages_of([{**content, "role": "assistant"}], "assistant")
        if chosen:
            reader.put(Field.OUTPUT, chosen, source, capture=lacking(chosen))


def _tool(reader: Reader) -> None:
    attributes = reader.record.attributes
    reader.classify(SpanClass.TOOL, "gen_ai.operation.name")
    given = attributes.get(_PREFIX + "tool_call_args")
    if given is not None:
        hidden = given == "{}" and attributes.get(_PREFIX + "tool_response") in _NOTHING
        if given in ("", "N/A") or hidden:
            reader.put(Field.ARGUMENTS, None, _PREFIX + "tool_call_args", capture=Capture.NOT_CAPTURED)
        else:
            reader.arguments(given, _PREFIX + "tool_call_args")
    answer = attributes.get(_PREFIX + "tool_response")
    if answer is None:
        return
    if answer in _NOTHING:
        reader.put(Field.RESULT, None, _PREFIX + "tool_response", capture=Capture.NOT_CAPTURED)
    else:
        reader.result(answer, _PREFIX + "tool_response")
