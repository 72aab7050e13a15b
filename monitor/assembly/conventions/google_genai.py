"""Google GenAI SDK clients: a loop of automatic function calls inside one span, results wrapped as `{"result": …}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collectors.span import StatusCode
from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.gen_ai import GenAi
from monitor.assembly.conventions.openinference import OpenInference, flat_calls
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, value
from monitor.assembly.messages import calls_in, fingerprint, lacking, messages_of
from monitor.assembly.record import Record
from monitor.assembly.values import canonical, decode
from monitor.model.invocation import Capture, Message, Part

_HISTORY = ("automatic_function_calling_history", "automaticFunctionCallingHistory")


class GoogleGenAi(Convention):
    """Model calls of the SDK itself; ADK's, which go through the same operation, have their own keys."""

    name = "google_genai"
    names = frozenset({"openinference.span.kind", "gen_ai.operation.name"})

    def recognises(self, record: Record) -> bool:
        """A `generate_content` call that no ADK span stands behind."""
        attributes = record.attributes
        if "gcp.vertex." in record.shape.heads:
            return False
        if attributes.get("openinference.span.kind") == "LLM":
            return attributes.get("llm.provider") == "google" and "GenerateContent" in record.span.name
        return attributes.get("gen_ai.operation.name") == "generate_content"

    def read(self, record: Record) -> Facts:
        """Input and output with the loop's calls, and results as the tools gave them."""
        reader = Reader(record, self.name)
        base = OpenInference() if "openinference" in record.shape.prefixes else GenAi()
        facts = base.read(record)
        given = _bare(value(facts, Field.INPUT) or ())
        if given and Field.INPUT in facts:
            reader.put(Field.INPUT, given, facts[Field.INPUT].source, capture=facts[Field.INPUT].capture)
        _output(reader, facts, given)
        if record.span.status_code is StatusCode.ERROR and Field.DEFINITIONS in facts:
            # The SDK calls functions itself and goes on; a run that fails then leaves nothing of the calls before.
            reader.put(Field.CALLS_HIDDEN, True, "status")
        return reader.facts


def _output(reader: Reader, facts: Facts, given: tuple[Message, ...]) -> None:
    attributes = reader.record.attributes
    loop = _bare(_loop(decode(attributes.get("output.value"))))
    if not loop:
        calls = flat_calls(reader.record, "message.tool_calls")
        loop = messages_of([{"role": "assistant", "content": None, "tool_calls": calls}], "assistant") if calls else ()
    found = facts.get(Field.OUTPUT)
    said = _without(tuple(found.value or ()) if found else (), loop)
    if not loop and found is None:
        return
    reason: Capture | None = found.capture if found is not None and not said else None
    source = found.source if found is not None else "output.value"
    whole = (*loop, *(_bare(said) if said else _gap(reason)))
    reader.put(Field.OUTPUT, whole, source, capture=lacking(whole) if not loop else None)


def _gap(reason: Capture | None) -> tuple[Message, ...]:
    """The place of an answer that was not recorded."""
    return (Message("assistant", ({"type": "text", "capture": reason.value},)),) if reason else ()


def _loop(response: Any) -> tuple[Message, ...]:
    """Calls and answers of the loop inside a response: what follows the user's message in its history, told once."""
    if not isinstance(response, Mapping):
        return ()
    history = next((response[key] for key in _HISTORY if isinstance(response.get(key), list)), None)
    told = messages_of(history, "user") if history else ()
    starts = [i for i, message in enumerate(told) if fingerprint((message,)) == fingerprint(told[:1])]
    last = told[starts[-1] :] if starts else ()
    asked = next((i for i in range(len(last) - 1, -1, -1) if last[i].role == "user"), -1)
    return last[asked + 1 :]


def _without(said: tuple[Message, ...], loop: Sequence[Message]) -> tuple[Message, ...]:
    """The answer without calls that the loop has made already (a streamed answer repeats them)."""
    made = {_meaning(part) for part in calls_in(loop)}
    kept = []
    for message in said:
        parts = tuple(part for part in message.parts if part.get("type") != "tool_call" or _meaning(part) not in made)
        if parts:
            kept.append(Message(message.role, parts))
    return tuple(kept)


def _meaning(part: Part) -> str:
    return canonical([part.get("name"), part.get("arguments")])


def _bare(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with tool results out of the `{"result": …}` that the SDK puts around each."""
    return tuple(Message(message.role, tuple(_bare_part(part) for part in message.parts)) for message in messages)


def _bare_part(part: Part) -> Part:
    if part.get("type") != "tool_call_response":
        return part
    response = decode(part.get("response"))
    if isinstance(response, Mapping) and set(response) == {"result"}:
        return {**part, "response": response["result"]}
    return part
