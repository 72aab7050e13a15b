"""Model Context Protocol: client spans are tool runs, the server's span of the same call is only evidence."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.reader import Reader
from monitor.assembly.facts import Facts, Field, SpanClass
from monitor.assembly.record import Record
from monitor.assembly.values import decode

_SERVER = 2


class Mcp(Convention):
    """Spans with `mcp.method.name`."""

    name = "mcp"
    words = frozenset({"mcp"})

    def recognises(self, record: Record) -> bool:
        """The method's name."""
        return "mcp.method.name" in record.attributes

    def read(self, record: Record) -> Facts:
        """A call's facts; other methods (listing tools, pinging) are steps."""
        reader = Reader(record, self.name)
        if record.attributes.get("mcp.method.name") != "tools/call":
            reader.classify(SpanClass.STEP, "mcp.method.name")
            return reader.facts
        reader.classify(SpanClass.STEP if record.span.kind == _SERVER else SpanClass.TOOL, "mcp.method.name")
        reader.tool(
            ("gen_ai.tool.name", "mcp.tool.name"),
            ("gen_ai.tool.call.id",),
            ("gen_ai.tool.call.arguments", "mcp.request.argument"),
            ("gen_ai.tool.call.result",),
        )
        head, _, rest = record.span.name.partition(" ")
        if head == "tools/call" and rest:
            reader.put(Field.TOOL_NAME, rest, "span name", weak=True)
        answer = decode(record.attributes.get("gen_ai.tool.call.result"))
        if isinstance(answer, Mapping) and answer.get("isError") is True:
            reader.put(Field.TOOL_FAILED, True, "gen_ai.tool.call.result isError")
        return reader.facts
