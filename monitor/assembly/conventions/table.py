"""All dialects, in order of precedence: framework-specific readings before generic ones. Facts are taken one by one."""

from __future__ import annotations

from monitor.assembly.conventions.agent_framework import AgentFramework
from monitor.assembly.conventions.agentcore import AgentCore
from monitor.assembly.conventions.anthropic_sdk import AnthropicSdk
from monitor.assembly.conventions.autogen import AutoGen
from monitor.assembly.conventions.azure_agents import AzureAgents
from monitor.assembly.conventions.azure_monitor import AzureMonitor
from monitor.assembly.conventions.claude_code import ClaudeCode
from monitor.assembly.conventions.codex import Codex
from monitor.assembly.conventions.convention import Convention
from monitor.assembly.conventions.dify import Dify
from monitor.assembly.conventions.gateways import Gateways
from monitor.assembly.conventions.gemini_cli import GeminiCli
from monitor.assembly.conventions.gen_ai import GenAi
from monitor.assembly.conventions.gen_ai_events import GenAiEvents
from monitor.assembly.conventions.gen_ai_prompt import GenAiPrompt
from monitor.assembly.conventions.genkit import Genkit
from monitor.assembly.conventions.google_adk import GoogleAdk
from monitor.assembly.conventions.google_genai import GoogleGenAi
from monitor.assembly.conventions.haystack import Haystack
from monitor.assembly.conventions.identity import Identity
from monitor.assembly.conventions.langfuse import Langfuse
from monitor.assembly.conventions.langsmith import LangSmith
from monitor.assembly.conventions.livekit import LiveKit
from monitor.assembly.conventions.logfire import Logfire
from monitor.assembly.conventions.mastra import Mastra
from monitor.assembly.conventions.mcp import Mcp
from monitor.assembly.conventions.mlflow import MLflow
from monitor.assembly.conventions.openinference import OpenInference
from monitor.assembly.conventions.openlit import OpenLit
from monitor.assembly.conventions.openllmetry import OpenLlmetry
from monitor.assembly.conventions.pydantic_ai import PydanticAi
from monitor.assembly.conventions.semantic_kernel import SemanticKernel
from monitor.assembly.conventions.span_types import SpanTypes
from monitor.assembly.conventions.spring_ai import SpringAi
from monitor.assembly.conventions.strands import Strands
from monitor.assembly.conventions.vercel import Vercel
from monitor.assembly.record import Shape, by_shape

CONVENTIONS: tuple[Convention, ...] = (
    AnthropicSdk(),
    GoogleAdk(),
    GoogleGenAi(),
    PydanticAi(),
    Vercel(),
    LangSmith(),
    Langfuse(),
    Mastra(),
    MLflow(),
    LiveKit(),
    Genkit(),
    Haystack(),
    SpringAi(),
    ClaudeCode(),
    Codex(),
    GeminiCli(),
    AzureAgents(),
    AgentFramework(),
    SemanticKernel(),
    AutoGen(),
    Strands(),
    AzureMonitor(),
    Gateways(),
    OpenLit(),
    Mcp(),
    OpenInference(),
    OpenLlmetry(),
    Dify(),
    Logfire(),
    SpanTypes(),
    GenAi(),
    GenAiEvents(),
    GenAiPrompt(),
    AgentCore(),
    Identity(),
)


@by_shape
def worth_asking(shape: Shape) -> tuple[Convention, ...]:
    """The conventions that may recognise a span with these keys and event names; all for one without any."""
    if not shape.names:
        return CONVENTIONS
    return tuple(one for one in CONVENTIONS if _fits(one.words, shape.words) and _fits(one.names, shape.names))


def _fits(wanted: frozenset[str], found: frozenset[str]) -> bool:
    return not wanted or not wanted.isdisjoint(found)
