"""The expectations of a `check`: each a function from its setting and an invocation to what was found."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from monitor.model.invocation import Invocation, ToolCall, ToolStatus
from monitor.rubrics.kinds.needs import Need, unmet
from monitor.rubrics.kinds.regex_search import compiled
from monitor.rubrics.kinds.schema_check import mistakes
from monitor.rubrics.kinds.trajectory import ExpectedCall, canonical, match

MAX_SEARCHED = 200_000
"""Characters of the final answer that texts and patterns are looked for in."""

_FENCE = re.compile(r"\A\s*```[^\n`]*\n(.*?)\n?```\s*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether the expectation holds; None where it does not apply. `lacking` is the reason why it cannot be told."""

    held: bool | None
    explanation: str = ""
    lacking: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


def _lacks(invocation: Invocation, field_: str, *, empty_is_known: bool = False) -> Finding | None:
    reason = unmet(invocation, (Need(field_, empty_is_known),))
    return Finding(None, lacking=reason) if reason else None


def _calls(invocation: Invocation) -> Finding | None:
    """Tool calls must be in the telemetry, or known to be none; what they returned matters not."""
    none = not invocation.tool_calls or bool(invocation.turns)
    missing = none and "tool_calls" in invocation.completeness.missing
    return Finding(None, lacking="missing:tool_calls") if missing else None


def tool_called(tools: Sequence[str], invocation: Invocation) -> Finding:
    """Each of the tools was called at least once."""
    made = {call.name for call in invocation.tool_calls}
    left_out = [tool for tool in tools if tool not in made]
    return _calls(invocation) or Finding(
        not left_out, f"Not called: {', '.join(left_out)}." if left_out else f"Called: {', '.join(tools)}."
    )


def tool_not_called(tools: Sequence[str], invocation: Invocation) -> Finding:
    """None of the tools was called."""
    made = {call.name for call in invocation.tool_calls}
    found = [tool for tool in tools if tool in made]
    return _calls(invocation) or Finding(
        not found, f"Called: {', '.join(found)}." if found else f"Not called: {', '.join(tools)}."
    )


def tool_order(order: Any, invocation: Invocation) -> Finding:
    """The calls are those expected, by the mode; precision, recall and F1 are in the details."""
    expected = [ExpectedCall(item.tool, item.arguments) for item in order.calls]
    found = match(order.mode, invocation.tool_calls, expected)
    made = ", ".join(call.name for call in invocation.tool_calls) or "none"
    wanted = ", ".join(item.tool for item in expected) or "none"
    details = {"precision": found.precision, "recall": found.recall, "f1": found.f1}
    return _calls(invocation) or Finding(
        found.held, f"{order.mode}: expected {wanted}; called {made}.", details=details
    )


def tool_arguments(rules: Sequence[Any], invocation: Invocation) -> Finding:
    """The arguments of every call of a tool follow its schema. Does not apply when none of the tools was called."""
    wrong, checked = [], 0
    for index, call in enumerate(invocation.tool_calls):
        for rule in (rule for rule in rules if rule.tool == call.name):
            if f"tool_calls[{index}].arguments" in invocation.completeness.capture or call.arguments is None:
                return Finding(None, lacking=_arguments_reason(invocation, index))
            checked += 1
            wrong += [
                f"{call.name}, call {index + 1}: {mistake}" for mistake in mistakes(rule.json_schema, call.arguments)
            ]
    if not checked:
        return _calls(invocation) or Finding(None, f"Not called: {', '.join(rule.tool for rule in rules)}.")
    return Finding(not wrong, "; ".join(wrong[:3]) or f"{checked} calls follow the schema.")


def _arguments_reason(invocation: Invocation, index: int) -> str:
    capture = invocation.completeness.capture.get(f"tool_calls[{index}].arguments")
    return capture.value if capture in ("redacted", "truncated") else "missing:tool_calls.arguments"


def _failed(call: ToolCall) -> bool:
    return call.status is ToolStatus.ERROR or call.error is not None


def no_tool_errors(wanted: bool, invocation: Invocation) -> Finding:
    """No tool call failed. Does not apply without tool calls."""
    failed = [call.name for call in invocation.tool_calls if _failed(call)]
    if not invocation.tool_calls:
        return _calls(invocation) or Finding(None, "No tool was called.")
    return Finding(not failed, f"Failed: {', '.join(failed)}." if failed else "No tool call failed.")


def known_tools(wanted: bool, invocation: Invocation) -> Finding:
    """Only tools that the agent was offered are called. Calls of sub-agents are left out: what those were offered is not known."""
    own = [call.name for call in invocation.tool_calls if call.agent_name is None]
    if not own:
        return _calls(invocation) or Finding(None, "No tool was called.")
    offered = {definition.name for definition in invocation.tool_definitions}
    unknown = sorted(set(own) - offered)
    if not unknown:
        return Finding(True, "All tools called were offered.")
    lacking = _lacks(
        invocation, "tool_definitions"
    )  # a list that is not whole can show that a tool was offered, not that it was not
    return lacking or Finding(False, f"Called, but not offered: {', '.join(unknown)}.")


def max_repeated_tool_calls(limit: int, invocation: Invocation) -> Finding:
    """No tool is called with the same arguments more often than that. Does not apply without tool calls."""
    if not invocation.tool_calls:
        return _calls(invocation) or Finding(None, "No tool was called.")
    hidden = invocation.completeness.capture
    known = [
        (call.name, canonical(call.arguments))
        for index, call in enumerate(invocation.tool_calls)
        if call.arguments is not None and f"tool_calls[{index}].arguments" not in hidden
    ]
    if not known and len(invocation.tool_calls) > limit:
        return Finding(None, lacking=_arguments_reason(invocation, 0))
    (tool, _), often = Counter(known).most_common(1)[0] if known else (("", ""), 0)
    text = f"{tool} was called {often} times with the same arguments" if often > 1 else "No call was repeated"
    return Finding(often <= limit, f"{text}; at most {limit} are allowed.")


def final_response_present(wanted: bool, invocation: Invocation) -> Finding:
    """The run gave an answer. A run that did not fail and whose answer is not in the telemetry is not known to have given none."""
    lacking = _lacks(invocation, "final_response")
    if lacking is None:
        return Finding(True, "There is a final answer.")
    if lacking.lacking == "no_answer" and (invocation.error is not None or invocation.final_response is not None):
        return Finding(False, "The run ended without an answer.")
    return lacking


def no_error(wanted: bool, invocation: Invocation) -> Finding:
    """The run did not fail."""
    return Finding(
        invocation.error is None, "The run failed." if invocation.error is not None else "The run did not fail."
    )


def _about_the_answer(check: Callable[[Any, str], Finding]) -> Callable[[Any, Invocation], Finding]:
    def on_invocation(setting: Any, invocation: Invocation) -> Finding:
        lacking = _lacks(invocation, "final_response")
        return lacking or check(setting, (invocation.final_response or "")[:MAX_SEARCHED])

    return on_invocation


def _texts_found(texts: Sequence[str], answer: str) -> list[str]:
    folded = answer.casefold()
    return [text for text in texts if text.casefold() in folded]


def _forbidden_text(texts: Sequence[str], answer: str) -> Finding:
    found = _texts_found(texts, answer)
    return Finding(
        not found, f"In the answer: {'; '.join(found)}" if found else "None of the forbidden texts is there."
    )


def _required_text(texts: Sequence[str], answer: str) -> Finding:
    found = _texts_found(texts, answer)
    left_out = [text for text in texts if text not in found]
    return Finding(
        not left_out, f"Not in the answer: {'; '.join(left_out)}" if left_out else "All required texts are there."
    )


def _forbidden_regex(patterns: Sequence[str], answer: str) -> Finding:
    found = [pattern for pattern in patterns if compiled(pattern).found_in(answer)]
    return Finding(
        not found, f"The answer matches {'; '.join(found)}" if found else "The answer matches no forbidden pattern."
    )


def _required_regex(patterns: Sequence[str], answer: str) -> Finding:
    left_out = [pattern for pattern in patterns if not compiled(pattern).found_in(answer)]
    return Finding(
        not left_out,
        f"The answer does not match {'; '.join(left_out)}" if left_out else "The answer matches every pattern.",
    )


def _final_response_schema(schema: Mapping[str, Any], answer: str) -> Finding:
    fenced = _FENCE.match(answer)
    try:
        value = json.loads(fenced[1] if fenced else answer)
    except (ValueError, RecursionError):
        return Finding(False, "The answer is no JSON.")
    wrong = mistakes(schema, value)
    return Finding(not wrong, "; ".join(wrong) or "The answer follows the schema.")


def max_latency(seconds: float, invocation: Invocation) -> Finding:
    """The run took at most that many seconds."""
    took = (invocation.ended_at - invocation.started_at) / 1e9
    return Finding(took <= seconds, f"Took {took:.3f} s; at most {seconds:g} s are allowed.", details={"seconds": took})


def _tokens(invocation: Invocation) -> int | Finding:
    for name in ("input_tokens", "output_tokens"):
        if getattr(invocation, name) is None:
            return Finding(None, lacking=f"missing:{name}")
    return (invocation.input_tokens or 0) + (invocation.output_tokens or 0)


def max_tokens(limit: int, invocation: Invocation) -> Finding:
    """The run used at most that many tokens, input and output together."""
    used = _tokens(invocation)
    if isinstance(used, Finding):
        return used
    return Finding(used <= limit, f"Used {used} tokens; at most {limit} are allowed.", details={"tokens": used})


def max_cost(budget: Any, invocation: Invocation) -> Finding:
    """The run's tokens cost at most that much at the prices given."""
    used = _tokens(invocation)
    if isinstance(used, Finding):
        return used
    millionths = (invocation.input_tokens or 0) * budget.input_per_million + (
        invocation.output_tokens or 0
    ) * budget.output_per_million
    cost = millionths / 1_000_000
    return Finding(
        cost <= budget.usd, f"Cost {cost:.6g} USD; at most {budget.usd:g} are allowed.", details={"usd": cost}
    )


def max_tool_calls(limit: int, invocation: Invocation) -> Finding:
    """At most that many tool calls, sub-agents' included."""
    made = len(invocation.tool_calls)
    return _calls(invocation) or Finding(made <= limit, f"{made} tool calls; at most {limit} are allowed.")


def max_model_calls(limit: int, invocation: Invocation) -> Finding:
    """At most that many model calls, sub-agents' included."""
    made = invocation.model_calls
    if not made and "model_calls" in invocation.completeness.missing:
        return Finding(None, lacking="missing:model_calls")
    return Finding(made <= limit, f"{made} model calls; at most {limit} are allowed.")


EXPECTATIONS: Mapping[str, Callable[[Any, Invocation], Finding]] = {
    "tool_called": tool_called,
    "tool_not_called": tool_not_called,
    "tool_order": tool_order,
    "tool_arguments": tool_arguments,
    "no_tool_errors": no_tool_errors,
    "known_tools": known_tools,
    "max_repeated_tool_calls": max_repeated_tool_calls,
    "final_response_present": final_response_present,
    "final_response_schema": _about_the_answer(_final_response_schema),
    "required_text": _about_the_answer(_required_text),
    "forbidden_text": _about_the_answer(_forbidden_text),
    "required_regex": _about_the_answer(_required_regex),
    "forbidden_regex": _about_the_answer(_forbidden_regex),
    "no_error": no_error,
    "max_latency": max_latency,
    "max_tokens": max_tokens,
    "max_cost": max_cost,
    "max_tool_calls": max_tool_calls,
    "max_model_calls": max_model_calls,
}
"""The keys of `expect`; `check.Expect` has a field for each."""


EVERY_TURN = frozenset({
    "known_tools", "max_repeated_tool_calls", "forbidden_text", "forbidden_regex", "no_error", "max_latency",
})  # fmt: skip
"""Of a conversation these must hold in each of its turns."""

LAST_TURN = frozenset({"final_response_present", "final_response_schema", "required_text", "required_regex"})
"""These are about a conversation's last turn. All others are about all turns together: their tool calls, tokens, model calls."""


def findings(settings: Iterator[tuple[str, Any]], invocation: Invocation) -> Iterator[tuple[str, Finding]]:
    """What is found for each expectation that is set."""
    for key, setting in settings:
        if invocation.turns and key in EVERY_TURN:
            yield key, _in_every_turn(EXPECTATIONS[key], setting, invocation.turns)
        elif invocation.turns and key in LAST_TURN:
            yield key, EXPECTATIONS[key](setting, invocation.turns[-1])
        else:
            yield key, EXPECTATIONS[key](setting, invocation)


def _in_every_turn(check: Callable[[Any, Invocation], Finding], setting: Any, turns: Sequence[Invocation]) -> Finding:
    """Holds where it holds in every turn that it applies to. One turn in which it does not decides; else one of which it cannot be told."""
    found = [check(setting, turn) for turn in turns]
    for place, one in enumerate(found, 1):
        if one.held is False:
            return replace(one, explanation=f"Turn {place}: {one.explanation}")
    lacking = next((one for one in found if one.lacking), None)
    applicable = [one for one in found if one.held is not None]
    return lacking or (applicable or found)[-1]
