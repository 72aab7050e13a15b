"""Spans that Anthropic's SDKs and platform make themselves: no content, and the provider's own token counts."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.record import Record


class AnthropicSdk(Convention):
    """`anthropic.messages.create` and its kin."""

    name = "anthropic_sdk"
    words = frozenset({"anthropic"})

    def recognises(self, record: Record) -> bool:
        """`anthropic.*` attributes on a model call."""
        return "anthropic" in record.shape.prefixes and "gen_ai" in record.shape.prefixes

    def read(self, record: Record) -> Facts:
        """That the counts are the provider's; the rest is GenAI."""
        reader = Reader(record, self.name)
        if record.span.name.startswith("anthropic.tool_use"):
            reader.classify(SpanClass.TOOL, "span name")
        reader.put(Field.NATIVE, True, "anthropic.*")
        return reader.facts
