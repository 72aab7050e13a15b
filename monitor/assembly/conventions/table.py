"""All dialects, in order of precedence: framework-specific readings before generic ones. Facts are taken one by one."""

from __future__ import annotations

from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.gen_ai import GenAi
from monitor.assembly.conventions.gen_ai_events import GenAiEvents
from monitor.assembly.conventions.google_adk import GoogleAdk
from monitor.assembly.conventions.identity import Identity
from monitor.assembly.conventions.openinference import OpenInference
from monitor.assembly.conventions.pydantic_ai import PydanticAi

CONVENTIONS: tuple[Convention, ...] = (
    GoogleAdk(),
    PydanticAi(),
    OpenInference(),
    GenAi(),
    GenAiEvents(),
    Identity(),
)
