"""Model gateways (LiteLLM): they see an application's calls once more and are no agents."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, SpanClass
from monitor.assembly.record import Record

_RAW = frozenset({"raw_gen_ai_request"})
_REQUEST = frozenset({"litellm_request", "Received Proxy Server Request"})


class Gateways(Convention):
    """Spans of LiteLLM's SDK and proxy."""

    name = "litellm"
    words = frozenset({"llm", "gen_ai", "metadata", "hidden_params", "litellm"})

    def recognises(self, record: Record) -> bool:
        """LiteLLM's span names with attributes of its own."""
        if record.span.name not in _RAW | _REQUEST:
            return False
        return any(
            key.startswith(("llm.", "gen_ai.", "metadata.", "hidden_params", "litellm")) for key in record.attributes
        )

    def read(self, record: Record) -> Facts:
        """The raw request repeats its parent; a request is a model call."""
        reader = Reader(record, self.name)
        if record.span.name in _RAW:
            reader.classify(SpanClass.DUPLICATE, "span name")
        elif record.span.name == "litellm_request":
            reader.classify(SpanClass.MODEL, "span name")
        return reader.facts
