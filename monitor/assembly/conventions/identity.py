"""Who speaks, in which conversation, where: keys that any dialect may carry, on any span (a web request's too)."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import PLACEHOLDERS, Reader, Texts
from monitor.assembly.facts import Facts, Field
from monitor.assembly.record import Record, Shape, by_shape
from monitor.assembly.values import decode, withheld

CONVERSATION_KEYS = (
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "gcp.vertex.agent.session_id",
    "gen_ai.thread.id",
    "microsoft.gen_ai.main_agent.conversation_id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.conversation_id",
    "traceloop.association.properties.thread_id",
    "traceloop.association.properties.chat_id",
    "langsmith.metadata.session_id",
    "langsmith.metadata.thread_id",
    "langsmith.metadata.conversation_id",
    "ai.telemetry.metadata.sessionId",
    "ai.telemetry.metadata.threadId",
    "ai.telemetry.metadata.chatId",
    "ai.telemetry.metadata.conversationId",
    "ai.settings.context.sessionId",
    "ai.settings.context.threadId",
    "ai.settings.context.chatId",
    "ai.settings.context.conversationId",
    "mastra.metadata.threadId",
    "langwatch.thread.id",
    "mlflow.trace.session",
    "spring.ai.chat.client.conversation.id",
    "conversation.id",
)
"""Keys of a conversation's id in order of preference (reference: conventions, section 7)."""

_KEYS = frozenset(CONVERSATION_KEYS)
_METADATA_KEYS = ("session_id", "conversation_id", "thread_id")
_SHARED = frozenset({"default"})
"""Values that everybody has who sets nothing (Spring AI's chat memory)."""

_ENVIRONMENT_KEYS = (
    "deployment.environment.name",
    "deployment.environment",
    "langfuse.environment",
    "gen_ai.environment",
)
_ENVIRONMENT = Texts({Field.ENVIRONMENT: _ENVIRONMENT_KEYS})


class Identity(Convention):
    """Conversation, and what an Azure exporter stamps on descendants of an agent."""

    name = "attributes"
    names = _KEYS.union(_ENVIRONMENT_KEYS, ["metadata"])

    def read(self, record: Record) -> Facts:
        """The conversation id and the environment."""
        reader = Reader(record, self.name)
        for key in _present(record.shape):
            if key == "session.id" and _of_a_browser(record):
                continue  # real user monitoring: a browser's session, not a conversation
            value = record.attributes.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                value = str(value)
            if key == "mlflow.trace.session":
                value = decode(value)
            if isinstance(value, str) and is_conversation(value):
                reader.put(Field.CONVERSATION, value, key)
                break
        if "metadata" in record.attributes:
            _from_metadata(reader)
        reader.texts(_ENVIRONMENT)
        return reader.facts


@by_shape
def _present(shape: Shape) -> tuple[str, ...]:
    return tuple(key for key in CONVERSATION_KEYS if key in shape.keys)


def _of_a_browser(record: Record) -> bool:
    language = record.span.resource.attributes.get("telemetry.sdk.language")
    return language == "webjs" or "browser" in record.shape.prefixes


def is_conversation(value: str) -> bool:
    """Whether an id can name a conversation: an OpenAI response id names one answer, a placeholder nothing."""
    text = value.strip()
    return text.lower() not in PLACEHOLDERS | _SHARED and not text.startswith("resp_") and withheld(text) is None


def _from_metadata(reader: Reader) -> None:
    metadata = decode(reader.record.attributes.get("metadata"))
    if not isinstance(metadata, Mapping):
        return
    for key in _METADATA_KEYS:
        value = metadata.get(key)
        if isinstance(value, str) and is_conversation(value):
            reader.put(Field.CONVERSATION, value, f"metadata {key}")
            return
