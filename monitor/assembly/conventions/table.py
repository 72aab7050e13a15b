"""All dialects, in order of precedence: framework-specific readings before generic ones. Facts are taken one by one."""

from __future__ import annotations

from monitor.assembly.conventions.anthropic_sdk import AnthropicSdk
from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.gen_ai import GenAi
from monitor.assembly.conventions.gen_ai_events import GenAiEvents
from monitor.assembly.conventions.gen_ai_prompt import GenAiPrompt
from monitor.assembly.conventions.google_adk import GoogleAdk
from monitor.assembly.conventions.google_genai import GoogleGenAi
from monitor.assembly.conventions.identity import Identity
from monitor.assembly.conventions.langsmith import LangSmith
from monitor.assembly.conventions.openinference import OpenInference
from monitor.assembly.conventions.openlit import OpenLit
from monitor.assembly.conventions.openllmetry import OpenLlmetry
from monitor.assembly.conventions.pydantic_ai import PydanticAi
from monitor.assembly.conventions.vercel import Vercel

CONVENTIONS: tuple[Convention, ...] = (
    AnthropicSdk(),
    GoogleAdk(),
    GoogleGenAi(),
    PydanticAi(),
    Vercel(),
    LangSmith(),
    OpenLit(),
    OpenInference(),
    OpenLlmetry(),
    GenAi(),
    GenAiEvents(),
    GenAiPrompt(),
    Identity(),
)
