"""Who speaks, in which conversation, where: keys that any dialect may carry, on any span (a web request's too)."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.assembly.conventions.reader import PLACEHOLDERS, Reader
from monitor.assembly.facts import Facts, Field
from monitor.assembly.record import Record
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
_RANK = {key: number for number, key in enumerate(CONVERSATION_KEYS)}
_METADATA_KEYS = ("session_id", "conversation_id", "thread_id")
_SHARED = frozenset({"default"})
"""Values that everybody has who sets nothing (Spring AI's chat memory)."""

_ENVIRONMENT_KEYS = (
    "deployment.environment.name",
    "deployment.environment",
    "langfuse.environment",
    "gen_ai.environment",
)


class Identity:
    """Conversation, and what an Azure exporter stamps on descendants of an agent."""

    name = "attributes"
    words = frozenset[str]()

    def recognises(self, record: Record) -> bool:
        """Every span: web requests carry session ids too."""
        return bool(record.attributes)

    def read(self, record: Record) -> Facts:
        """The conversation id and the environment."""
        reader = Reader(record, self.name)
        browser = (
            record.span.resource.attributes.get("telemetry.sdk.language") == "webjs" or "browser" in record.prefixes
        )
        present = _KEYS.intersection(record.attributes)
        for key in sorted(present, key=_RANK.__getitem__) if present else ():
            if key == "session.id" and browser:
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
        reader.text(Field.ENVIRONMENT, *_ENVIRONMENT_KEYS)
        return reader.facts


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
