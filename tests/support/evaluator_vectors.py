"""The vectors of google-adk, azure-ai-evaluation and Foundry, run on our code: `theirs` and `ours` in the same plain values.

Verdicts are "pass", "fail" and None; None is no verdict, whether a failed evaluation, not applicable or unjudgeable. A vector for which
`ours` has no way to run is out of scope and must be in the table of docs/evaluators.md with the reason.
"""

from __future__ import annotations

import asyncio
import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from monitor.clock import ManualClock
from monitor.judging.client import CallFault, FaultKind, JudgeReply
from monitor.judging.clients.scripted import ScriptedClient
from monitor.judging.judge import Judge
from monitor.judging.labelled import normalised
from monitor.judging.looking import judge_deterministic
from monitor.judging.reply import Question, read_reply
from monitor.judging.retry import classify, delay_seconds
from monitor.judging.transcript import transcript
from monitor.model.invocation import Invocation, Message, ToolCall, ToolDefinition, ToolStatus
from monitor.model.verdict import Criterion, Judgement, Outcome
from monitor.resources import config_folder
from monitor.rubrics.importing.adk import from_adk
from monitor.rubrics.importing.azure import defect, read_result, results
from monitor.rubrics.importing.imported import NotImportable
from monitor.rubrics.kinds import votes
from monitor.rubrics.kinds.answers import number
from monitor.rubrics.kinds.catalogue import KINDS
from monitor.rubrics.kinds.kind import Answer, ReplyFault
from monitor.rubrics.kinds.trajectory import ExpectedCall, match
from monitor.rubrics.kinds.weighted import WeightedSpec, judgement
from monitor.rubrics.library import RubricLibrary
from monitor.rubrics.rubric import Rubric, rubric_from
from monitor.settings.tree import JudgeSettings, MonitorSettings
from tests.support.judging import call, invocation, rubric

Vector = Mapping[str, Any]
SHIPPED = RubricLibrary.shipped(config_folder() / "rubrics")


def made(document: Mapping[str, Any]) -> Rubric:
    """The rubric of a document."""
    return rubric_from(KINDS[document["kind"]].spec.model_validate(dict(document)))


def asked(by: Rubric, item: Invocation, *script: Any) -> tuple[Judgement, ScriptedClient]:
    """The judgement of a scripted judge; None is an empty reply, EXCEPTION a call that fails."""
    lines = [
        JudgeReply(None, "stop") if line is None else CallFault(FaultKind.STATUS, 500) if line == "EXCEPTION" else line
        for line in script
    ]
    client = ScriptedClient(lines)
    judge = Judge("default", JudgeSettings(model="m"), client, ManualClock())
    return asyncio.run(judge.evaluate(by, item)), client


def word(outcome: Outcome | None) -> str | None:
    """pass, fail or None."""
    return outcome.value if outcome in (Outcome.PASS, Outcome.FAIL) else None


# -- google-adk ---------------------------------------------------------------------------------------------------------
def parsed(vector: Vector) -> Any:
    """The verdict on every property of a labelled text, or None for a sample that cannot be used."""
    text = vector["input"]["judge_text"]
    properties = _properties_of(text)
    if not properties:
        properties = {"p1": "A"}
    document = {
        "name": "p",
        "kind": "properties",
        "properties": [{"id": id_, "text": its} for id_, its in properties.items()],
    }
    by = made(document)
    sample = read_reply(text, Question(by.behaviour, by.spec))  # type: ignore[arg-type]
    if isinstance(sample, ReplyFault):
        return None
    return {properties[id_].split()[0]: answer.value for id_, answer in sample.items()}


def _properties_of(text: str) -> dict[str, str]:
    """The properties that the text is about: A, B, C by id where an id line stands before them."""
    found: dict[str, str] = {}
    id_ = ""
    for block in re.split(r"(?=^[-* ]*\**(?:ID|Property|property)\b)", text, flags=re.MULTILINE):
        label = re.match(
            r"[-* ]*\**(ID|Property):?\**:?\s*(.*?)(?=\n[-* ]*\**(?:ID|Evidence|Rationale|Verdict)|\Z)",
            block,
            re.DOTALL | re.IGNORECASE,
        )
        if label is None:
            continue
        if label[1].upper() == "ID":
            id_ = label[2].strip()
        else:
            found[id_ or f"p{len(found) + 1}"] = label[2].strip()
            id_ = ""
    return found


def parsed_there(vector: Vector) -> Any:
    """The same of the reference: None when nothing was found, or a property was not scored."""
    found = {item["property"].split()[0]: item["score"] for item in vector["expected"]}
    if not found or None in found.values():
        return None
    return {name: bool(score) for name, score in found.items()}


def evaluated(vector: Vector) -> Any:
    """Whole evaluations: for each invocation the score and what each rubric got; "refused" where rubrics are refused."""
    given = vector["input"]
    turns, samples, count = given.get("invocations") or [{"own_rubrics": []}], given["samples"], given["num_samples"]
    found, at = [], 0
    for index, turn in enumerate(turns):
        rubrics = given["rubrics"] + [own for own in turn["own_rubrics"] if own[2] == "FINAL_RESPONSE_QUALITY"]
        criterion = {
            "threshold": given["threshold"], "judge_model_options": {"num_samples": count},
            "rubrics": [{"rubric_id": id_, "rubric_content": {"text_property": text}} for id_, text, _ in rubrics],
        }  # fmt: skip
        if "multi-turn" in vector["what"] and index < len(turns) - 1:
            found.append({"score": None, "rubrics": {}})
            continue
        try:
            (document,) = from_adk(criterion).documents
        except NotImportable:
            return "refused"
        lines = [samples[(at + n) % len(samples)] for n in range(count)]
        at += count
        result, _ = asked(
            made(document), invocation(), *[line for line in lines for _ in range(_tries(line, document))]
        )
        found.append({"score": result.score, "rubrics": {item.id: item.score for item in result.criteria}})
    return found


def _tries(line: Any, document: Mapping[str, Any]) -> int:
    """How often a reply is asked for: one that cannot be read once more (the repair)."""
    if line == "EXCEPTION":
        return 1
    by = made(document)
    return 2 if isinstance(read_reply(line, Question(by.behaviour, by.spec)), ReplyFault) else 1  # type: ignore[arg-type]


def evaluated_there(vector: Vector) -> Any:
    expected = vector["expected"]
    if "raises" in expected:
        return "refused" if expected["raises"] in ("ValueError", "AssertionError") else [{"score": None, "rubrics": {}}]
    return [{"score": one["score"], "rubrics": dict(one["rubrics"] or [])} for one in expected["invocations"]]


def voted(vector: Vector) -> Any:
    answers = [
        Answer("a", None if score is None else score == 1.0, f"s{i}")
        for i, score in enumerate(vector["input"]["scores"])
    ]
    counted = votes.statement(answers).answer
    return {
        "verdict": None if counted.value is None else "pass" if counted.value else "fail",
        "kept": counted.explanation,
    }


def voted_there(vector: Vector) -> Any:
    said = vector["expected"]
    return {"verdict": {"PASSED": "pass", "FAILED": "fail"}.get(said["status"]), "kept": said["rationale_kept"]}


def claimed(vector: Vector) -> Any:
    """Sentences with labels in the reference's layout, given to our judge in ours."""
    labels = re.findall(r"label: (.*)", vector["input"]["validator_text"])
    by = made({"name": "c", "kind": "claims", "threshold": vector["input"]["threshold"]})
    pieces = re.findall(r"<sentence>(.*?)</sentence>", vector["input"]["segmenter_text"]) or ["s0", "s1"]
    answer = "\n".join(f"Sentence {piece}." for piece in pieces)
    reply = {f"s{i}": {"evidence": [], "reasoning": "x", "verdict": label} for i, label in enumerate(labels, 1)}
    result, _ = asked(by, invocation(final_response=answer), json.dumps({"sentences": reply}))
    return result.score


def trajectory(vector: Vector) -> Any:
    given = vector["input"]
    mode = given.get("match_type", given.get("mode", "")).removesuffix("_match").lower()
    plain = given.get("ignore_args", True)

    def parts(text: str) -> tuple[str, dict[str, str]]:
        name, _, value = text.partition(":")
        return name, {"x": value} if value else {}

    calls = [
        ToolCall(name, arguments=arguments) for name, arguments in map(parts, given.get("actual", given.get("calls")))
    ]
    wanted = [
        ExpectedCall(name, None if plain else arguments)
        for name, arguments in map(parts, given.get("expected_calls", given.get("ground_truth")))
    ]
    found = match(mode, calls, wanted)
    if "mode" in given:
        return [float(found.held), found.precision, found.recall, found.f1]
    return float(found.held)


def trajectory_there(vector: Vector) -> Any:
    said = vector["expected"]
    if "mode" not in vector["input"]:
        return said["score"]
    return [said["score"], said["precision_score"], said["recall_score"], said["f1_score"]]


def by_threshold(vector: Vector) -> Any:
    score, threshold = vector["input"]["score"], vector["input"]["threshold"]
    by = made(
        {"name": "w", "kind": "weighted", "threshold": threshold, "dimensions": [{"id": "a", "description": "x"}]}
    )
    criterion = Criterion("a", None if score is None else score * 5, score is not None, 1)
    return word(judgement(by.spec, [criterion]).outcome)  # type: ignore[arg-type]


def options(vector: Vector) -> Any:
    key, _, value = vector["input"]["value"].partition("=")
    if key != "num_samples":
        key = "max_concurrency"
    try:
        if key == "num_samples":
            made({"name": "x", "kind": "properties", "properties": [{"id": "a", "text": "x"}], key: int(value)})
        else:
            JudgeSettings.model_validate({"model": "m", key: int(value)})
    except ValidationError:
        return "ValidationError"
    return "ok"


def figures(vector: Vector) -> Any:
    """Figures of a run without a verdict, read off a bound that is never reached; None where the telemetry lacks them."""
    first = vector["input"]["first"]
    full = invocation(
        call("t"), model_calls=first["events_with_usage_or_model_version"], input_tokens=first["prompt"],
        output_tokens=first["candidates"], ended_at=1_700_000_000 * 10**9 + int(first["duration"] * 1e9),
    )  # fmt: skip
    empty = invocation(missing=("tool_calls", "model_calls"), model_calls=0, input_tokens=None, output_tokens=None)
    key = next(key for name, key in {"tool_call": "max_tool_calls", "inference": "max_model_calls", "token": "max_tokens", "duration": "max_latency"}.items() if name in vector["what"])  # fmt: skip
    bound: Any = "1h" if key == "max_latency" else 10**6
    by = rubric(json.dumps({"name": "f", "kind": "check", "expect": {key: bound}}))
    texts = [judge_deterministic(by, item) for item in (full, empty)]
    return [
        None if text.outcome is Outcome.UNJUDGEABLE else float(re.findall(r"\d+(?:\.\d+)?", text.explanation)[0])
        for text in texts
    ]


def calls_made(vector: Vector) -> Any:
    """Calls of a judge that never agrees with itself until the last sample."""
    given = vector["input"]
    by = made({"name": "p", "kind": "properties", "num_samples": given["num_samples"], "properties": [{"id": f"p{i}", "text": f"T{i}"} for i in range(given["rubrics"])]})  # fmt: skip
    words = ["yes", "no"] * given["num_samples"]
    total = 0
    for _ in range(given["invocations"]):
        replies = [json.dumps({"properties": {f"p{i}": {"evidence": [], "reasoning": "", "verdict": said} for i in range(given["rubrics"])}}) for said in words]  # fmt: skip
        total += len(asked(by, invocation(), *replies)[1].requests)
    return total


def instructions(vector: Vector) -> Any:
    """Instructions reach the judge whoever spoke first: they come from the telemetry of the model calls."""
    item = invocation(
        system_instructions="Be kind.",
        agent_name=(vector["input"].get("event_authors") or ["root"])[:1][0]
        if vector["input"].get("event_authors")
        else None,
    )
    return "Be kind." in transcript(item, "M").text


def unanswered(vector: Vector) -> Any:
    result, client = asked(
        made({"name": "p", "kind": "properties", "properties": [{"id": "ra", "text": "x"}]}),
        invocation(final_response=None),
        "x",
    )
    return [word(result.outcome), len(client.requests)]


# -- azure-ai-evaluation ------------------------------------------------------------------------------------------------
EVALUATORS = {
    "IntentResolution": "intent_resolution", "TaskAdherence": "task_adherence", "TaskCompletion": "task_completion",
    "ToolCallAccuracy": "tool_call_accuracy", "ToolSelection": "tool_selection", "ToolInputAccuracy": "tool_input_accuracy",
    "ToolCallSuccess": "tool_call_success", "ToolOutputUtilization": "tool_output_utilization", "Coherence": "coherence",
    "Fluency": "fluency", "Relevance": "relevance", "ResponseCompleteness": "response_completeness", "Retrieval": "retrieval",
    "Groundedness": "groundedness",
}  # fmt: skip


def converted(given: Vector) -> Invocation:
    """An invocation with what the reference's evaluator was given: query, response, context and definitions in its message format."""
    query, response = given.get("query"), given.get("response")
    history: list[Message] = []
    texts: list[str] = []
    calls: list[ToolCall] = []
    instructions_, question = None, query if isinstance(query, str) else None
    for message in query if isinstance(query, list) else []:
        if message["role"] == "system":
            instructions_ = _text(message)
        else:
            history.append(Message(message["role"], ({"type": "text", "content": _text(message)},)))
    if history and history[-1].role == "user":
        question = str(history.pop().parts[0]["content"])
    for message in response if isinstance(response, list) else []:
        _take(message, texts, calls)
    answer = response if isinstance(response, str) else "\n".join(texts) or None
    if given.get("context") is not None:
        calls.append(call("context", {}, given["context"]))
    tools = tuple(
        ToolDefinition(tool["name"], tool.get("description"), tool.get("parameters"))
        for tool in given.get("tool_definitions") or ()
    )
    return replace(
        invocation(*calls), user_input=question, final_response=answer, tool_definitions=tools, history=tuple(history),
        system_instructions=instructions_ or "Help the user.",
    )  # fmt: skip


def _text(message: Vector) -> str:
    content = message["content"]
    parts = content if isinstance(content, list) else [content]
    return "\n".join(part if isinstance(part, str) else str(part.get("text") or json.dumps(part)) for part in parts)


def _take(message: Vector, texts: list[str], calls: list[ToolCall]) -> None:
    content = message["content"]
    for part in content if isinstance(content, list) else [{"type": "text", "text": content}]:
        if part["type"] == "tool_call":
            inner = part.get("tool_call", {}).get("function", part)
            arguments = inner["arguments"]
            calls.append(
                ToolCall(
                    inner["name"],
                    id=part.get("tool_call_id"),
                    arguments=json.loads(arguments) if isinstance(arguments, str) else arguments,
                )
            )
        elif part["type"] == "tool_result":
            index = next((i for i, one in enumerate(calls) if one.id == message.get("tool_call_id")), None)
            if index is not None:
                calls[index] = replace(
                    calls[index], result=part["tool_result"], result_known=True, status=ToolStatus.OK
                )
        elif message["role"] == "assistant":
            texts.append(part.get("text", ""))


def graded(vector: Vector) -> Any:
    """A shipped evaluator on what the reference was given, its judge's output in our reply form: [verdict, score]."""
    given = vector["input"]
    name = next(key for word_, key in EVALUATORS.items() if word_ in vector["what"])
    if name == "groundedness" and "query" not in given:
        name = "groundedness_without_query"
    by = SHIPPED.get(name)
    threshold = given.get("init", {}).get("threshold")
    if threshold is not None and threshold <= max(by.spec.levels):  # type: ignore[attr-defined]
        by = rubric_from(by.spec.model_copy(update={"threshold": threshold}))
    if (
        name == "response_completeness"
    ):  # what is asked for stands in the request here, what there is to say in tool results
        given = {**given, "query": "q", "context": given["ground_truth"]}
    result, _ = asked(by, converted(given), _reply(given.get("llm_output", {"score": 5})))
    return [word(result.outcome), result.score]


def _reply(output: Any) -> str:
    """The judge's output; `skipped` is said by `not_applicable` here, and a score of NaN is written as JSON writers do."""
    if isinstance(output, str):
        return output
    if output.get("status") == "skipped":
        output = {**output, "score": "not_applicable"}
    text = json.dumps(output)
    return text.replace('"NaN"', "NaN")


def graded_there(vector: Vector) -> Any:
    said = vector["expected"]
    if "raises" in said:
        return [None, None]
    if "_score" not in "".join(said):
        score = next(value for key, value in said.items() if key.startswith("gpt_"))
    else:
        score = next((value for key, value in said.items() if key.endswith("_score")), None)
    label = next((value for key, value in said.items() if key.endswith("_result")), None)
    if label == "not_applicable" or score == "NaN":
        return ["fail" if said and label == "unknown" else None, None]
    return [label, score]


def turns(vector: Vector) -> Any:
    """Each turn is an invocation of its own; what is shown of several is a pass rate over those that were judged."""
    by = SHIPPED.get("coherence")
    outcomes = [word(asked(by, invocation(), _reply(turn))[0].outcome) for turn in vector["input"]["turn_outputs"]]
    return _rate(outcomes)


def _rate(outcomes: list[str | None]) -> Any:
    judged = [one for one in outcomes if one]
    return sum(one == "pass" for one in judged) / len(judged) if judged else None


def valid(vector: Vector) -> Any:
    return not isinstance(number(vector["input"]["score"], 1, 5, "score", whole=False), ReplyFault)


def tagged(vector: Vector) -> Any:
    by = SHIPPED.get("coherence")
    return asked(by, invocation(), vector["input"]["text"])[0].score


def shown(vector: Vector) -> Any:
    """Whether every word and value of the messages is in the record that our judge reads."""
    given = vector["input"]
    if "result" in given:
        return _shown_result(given["result"])
    if "messages" in given:
        given = {"query": given["messages"][:-1], "response": given["messages"][-1:]}
    text = transcript(converted(given), "M").text
    return all(piece in text for piece in _pieces(given))


def _shown_result(result: Any) -> Any:
    text = transcript(invocation(call("t", {}, result)), "M").text
    return text.partition("=== M result ===\n")[2].partition("\n=== M final answer")[0]


def _pieces(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [piece for key, item in value.items() if key not in ("role", "type", "id", "tool_call_id", "include_tool_messages", "include_tool_calls", "include_system_messages") for piece in _pieces(item)]  # fmt: skip
    if isinstance(value, list):
        return [piece for item in value for piece in _pieces(item)]
    if isinstance(value, str) and value.startswith("{"):
        return _pieces(json.loads(value))
    return [value] if isinstance(value, str) and value else []


def shared_out(vector: Vector) -> Any:
    """The pass rate of rows, as estimation counts it: passes among passes and fails."""
    outcomes = [one if one in ("pass", "fail") else None for one in vector["input"]["results"]]
    return _rate(outcomes)


def defects(vector: Vector) -> Any:
    return word(defect("x", vector["input"]["label"]).outcome)


def result_object(vector: Vector) -> Any:
    values = vector["input"]["metric_values"]
    return word(read_result("coherence", values).outcome)


def result_there(vector: Vector) -> Any:
    said = vector["expected"]
    return said["label"] if said["status"] == "completed" else None


def rows(vector: Vector) -> Any:
    """Result rows of both generations as the importer reads them, besides the evaluator itself."""
    (one,) = results(vector["expected"])
    return [word(one.outcome), one.score, one.threshold, one.reason]


def rows_there(vector: Vector) -> Any:
    said, name = vector["expected"], next(iter(vector["expected"]))
    return [said[f"{name}_result"], said[name], float(said[f"{name}_threshold"]), said[f"{name}_reason"]]


def retried(vector: Vector) -> Any:
    given = vector["input"]
    found = classify(
        CallFault(
            FaultKind.STATUS,
            given["status"],
            code=given.get("type") or "",
            retry_after_seconds=given.get("retry_after"),
        )
    )
    return [found.failure.temporary, delay_seconds(given["retry_index"] + 1, found.failure.retry_after_seconds)]


def defaults(vector: Vector) -> Any:
    """The sampling rate is a share, not per cent; left out it is 1, with 60 an hour where a judge is needed."""
    from monitor.sampling import sampling_rule

    rule = sampling_rule(MonitorSettings.model_validate({"rubrics": ["coherence"]}), needs_judge=True)
    return [rule.rate, rule.max_per_hour]


def file_search(vector: Vector) -> Any:
    """What a search has returned is context: the judge is shown it and the answer is judged."""
    item = converted(vector["input"])
    result, client = asked(SHIPPED.get("groundedness"), item, _reply({"score": 5}))
    return "T1" if result.score == 5 and "T1" in client.requests[0].messages[1].content else None


def judge_defaults(vector: Vector) -> Any:
    """One sample unless the rubric says more, for each costs a call; as many at once as the judge takes; no default model."""
    by = made({"name": "p", "kind": "properties", "properties": [{"id": "a", "text": "x"}]})
    with_model = JudgeSettings(model="m")
    return {"num_samples": by.spec.num_samples, "max_concurrency": with_model.max_concurrency}  # type: ignore[attr-defined]


# -- Foundry ------------------------------------------------------------------------------------------------------------
def weighed(vector: Vector) -> Any:
    given, said = vector["input"], vector["expected"]
    dimensions = given["dimensions"]
    result = {}
    for key, expected in (("score", "of_max"), ("min_max", "min_max"), ("min_max_would_be", "min_max")):
        if key in said:
            judged = _weighed(dimensions, expected, given, False)
            result[key] = None if judged.score is None else round(judged.score, 10)
    labels = {
        "label": ("of_max", "veto" in vector["what"]),
        "label_at_0.5_div5": ("of_max", False),
        "label_at_0.5_min_max": ("min_max", False),
    }
    for key, (normalisation, veto) in labels.items():
        if key in said:
            result[key] = word(_weighed(dimensions, normalisation, given, veto).outcome)
    return result


def _weighed(dimensions: Any, normalisation: str, given: Vector, veto: bool) -> Judgement:
    spec = WeightedSpec.model_validate({
        "name": "w", "normalisation": normalisation, "veto": veto, "threshold": given.get("pass_threshold", 0.5),
        "dimensions": [{"id": one["id"], "weight": one["weight"], "description": "x"} for one in dimensions],
    })  # fmt: skip
    return judgement(
        spec,
        [
            Criterion(one["id"], one["score"] if one["applicable"] else None, one["applicable"], one["weight"])
            for one in dimensions
        ],
    )


def weighed_there(vector: Vector) -> Any:
    keys = ("score", "min_max", "min_max_would_be", "label", "label_at_0.5_div5", "label_at_0.5_min_max")
    return {
        key: round(value, 10) if isinstance(value, float) else value
        for key, value in vector["expected"].items()
        if key in keys
    }


def printed(vector: Vector) -> Any:
    given, said = vector["input"], vector["expected"]
    return [round(_weighed(given["listed"], one, {}, False).score or 0, 10) for one in ("of_max", "min_max")] == [
        said["listed_div_5"],
        said["listed_min_max"],
    ]


def without_content(vector: Vector) -> Any:
    item = invocation(user_input=None, final_response=None, missing=("user_input", "final_response"))
    result, client = asked(SHIPPED.get("coherence"), item, "x")
    return [result.score, len(client.requests)]


Way = tuple[Callable[[Vector], Any], Callable[[Vector], Any]]


def way(vector: Vector) -> Way | None:
    """How a vector is run here and read there; None when it is out of scope."""
    what, id_, given = vector["what"], vector["id"], vector["input"]
    there: Callable[[Vector], Any] = operator.itemgetter("expected")
    if what.startswith("parse:"):
        return parsed, parsed_there
    if what.startswith("normalise"):
        return lambda one: normalised(one["input"]["text"]), there
    if what.startswith("evaluate:"):
        return evaluated, evaluated_there
    table: dict[str, Way] = {
        "majority vote": (voted, voted_there),
        "hallucinations": (claimed, lambda one: one["expected"]["score"]),
        "tool trajectory": (trajectory, trajectory_there),
        "task_navigation": (trajectory, trajectory_there),
        "status from score": (by_threshold, lambda one: {"PASSED": "pass", "FAILED": "fail"}.get(one["expected"])),
        "judge options validation": (options, there),
        "judge option defaults": (judge_defaults, there),
        "efficiency": (figures, lambda one: one["expected"]["per_invocation"]),
        "judge calls made": (calls_made, lambda one: one["expected"]["calls"]),
        "developer instructions": (instructions, lambda one: one["expected"].get("instructions_in_prompt", "raises")),
        "invocation without a final response": (unanswered, lambda one: ["pass", one["expected"]["judge_called"]]),
        "conversation": (
            turns,
            lambda one: (
                one["expected"]["coherence_passed"] if one["expected"]["coherence_passed"] is not None else None
            ),
        ),
        "check_score_is_valid": (valid, there),
        "parse_quality_evaluator": (tagged, lambda one: None if one["expected"][0] == "NaN" else one["expected"][0]),
        "batch pass share": (shared_out, lambda one: one["expected"]["ev.binary_aggregate"]),
        "inverse boolean": (defects, lambda one: one["expected"][1]),
        "result object": (result_object, result_there),
        "judge call retry": (retried, there),
        "continuous rule": (defaults, lambda one: "per cent"),
        "reformat": (shown, lambda one: "layout"),
        "serialize_messages": (shown, lambda one: "layout"),
        "render a tool result": (shown, there),
        "trace mapping": (without_content, lambda one: [one["expected"]["quality_score"], 0]),
    }
    for start, found in table.items():
        if what.startswith(start):
            return found
    if "complete result shape" in what or "full result" in what or "1.13.3" in what:
        return rows, rows_there
    if id_.startswith("fdy"):
        return (printed, lambda one: True) if "listed" in given else (weighed, weighed_there)
    if "derived property" in what:
        return None
    if "context extracted" in what:
        return file_search, lambda one: "T1"
    if any(name in what for name in EVALUATORS) and "llm_output" in given:
        return graded, graded_there
    return None
