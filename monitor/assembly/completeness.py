"""What the telemetry of an invocation did not carry."""

from __future__ import annotations

from monitor.model.invocation import Invocation

FIELDS = (
    "conversation_id",
    "agent_name",
    "agent_version",
    "environment",
    "service",
    "model",
    "system_instructions",
    "user_input",
    "tool_definitions",
    "final_response",
    "input_tokens",
    "output_tokens",
)
"""Fields that `missing` may name: those that a telemetry can lack."""


CUT_FIRST = frozenset({"user_input", "final_response", "system_instructions", "tool_definitions"})
"""Fields in attributes and events that fall victim to an SDK's limits on their number: the oldest go first."""


def missing_fields(invocation: Invocation, *, calls_hidden: bool) -> tuple[str, ...]:
    """The fields without a value, in the order of the contract. A failed run has no answer that could be missing.

    `calls_hidden`: the telemetry cannot tell whether tools were called, where it tells of none.
    """
    absent = [name for name in FIELDS if getattr(invocation, name) in (None, (), "")]
    if invocation.error is not None and "final_response" in absent:
        absent.remove("final_response")
    if not invocation.model_calls:
        absent.append("model_calls")
    if not invocation.tool_calls and calls_hidden:
        absent.append("tool_calls")
    if any(not call.name for call in invocation.tool_calls):
        absent.append("tool_calls.name")
    if invocation.tool_calls and all(call.arguments is None for call in invocation.tool_calls):
        absent.append("tool_calls.arguments")
    if invocation.tool_calls and not any(call.result_known for call in invocation.tool_calls):
        absent.append("tool_calls.result")
    return tuple(absent)
