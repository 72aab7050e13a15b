"""Google ADK: criteria and eval configs to rubrics. Pure.

Takes an eval config (`{"criteria": {metric: criterion}}`), one criterion (`{"threshold": …, "rubrics": […]}`), an eval set or case with rubrics, or
a list of rubrics; keys in snake or camel case. Rubrics of cases and invocations are filtered by their `type` as google-adk does, but are not
lost silently: what is left out is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from monitor.rubrics.importing.imported import Imported, NotImportable, either, name_of, share

_JUDGED = {
    "rubric_based_final_response_quality_v1": ("final_response", "FINAL_RESPONSE_QUALITY"),
    "rubric_based_tool_use_quality_v1": ("tool_use", "TOOL_USE_QUALITY"),
    "rubric_based_multi_turn_trajectory_quality_v1": ("trajectory", "TRAJECTORY_QUALITY"),
}
_BY_TYPE = {type_: (metric, about) for metric, (about, type_) in _JUDGED.items()}
_LEFT_OUT = {
    "tool_trajectory_avg_score": "its expected calls belong to a test case; write a `check` with `tool_order`",
    "response_match_score": "compares with a reference answer, which production traces do not have",
    "final_response_match_v2": "compares with a reference answer, which production traces do not have",
    "response_evaluation_score": "is a hosted service; `coherence` or `final_response_quality` come near",
    "safety_v1": "is a hosted service; `safety_general` comes near",
    "tool_call_count_v1": "is a figure without a verdict; a `check` with `max_tool_calls` bounds it",
    "inference_call_count_v1": "is a figure without a verdict; a `check` with `max_model_calls` bounds it",
    "token_usage_v1": "is a figure without a verdict; a `check` with `max_tokens` bounds it",
    "invocation_duration_v1": "is a figure without a verdict; a `check` with `max_latency` bounds it",
}
_SAMPLES = 5
"""google-adk's default; a rubric of ours asks once unless it says otherwise."""


def from_adk(data: Any) -> Imported:
    """The rubrics of a file of google-adk. Raises NotImportable."""
    documents, remarks = [], list[str]()
    for metric, criterion in _criteria(data):
        if metric in _JUDGED:
            documents.append(_judged(metric, criterion))
        elif metric.startswith("hallucinations"):
            documents.append(_claims(metric, criterion))
        else:
            remarks.append(f"{metric}: not imported, it {_LEFT_OUT.get(metric, 'is no metric with rubrics')}")
    for type_, rubrics in _case_rubrics(data, remarks):
        metric, about = _BY_TYPE[type_]
        documents.append(
            {"name": f"{metric}_cases", "kind": "properties", "about": about, "threshold": 0.5, **_properties(rubrics)}
        )
    if not documents and not remarks:
        raise NotImportable(
            "no `criteria`, no `rubrics`: expected an eval config, a criterion or an eval set of google-adk"
        )
    if any(document["kind"] == "properties" for document in documents):
        remarks.append("a property that does not apply leaves the score here; google-adk counts it as yes")
    return Imported(tuple(documents), tuple(remarks))


def _criteria(data: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(metric, criterion) pairs; a number alone is a threshold."""
    if isinstance(data, list):
        data = {"rubrics": data}
    if not isinstance(data, Mapping):
        raise NotImportable("expected a JSON object or a list of rubrics")
    criteria = data.get("criteria")
    if isinstance(criteria, Mapping):
        for metric, criterion in criteria.items():
            yield str(metric), criterion if isinstance(criterion, Mapping) else {"threshold": criterion}
    elif isinstance(data.get("rubrics"), list) and "conversation" not in data:
        yield "rubric_based_final_response_quality_v1", data


def _judged(metric: str, criterion: Mapping[str, Any]) -> dict[str, Any]:
    options = either(criterion, "judge_model_options", "judgeModelOptions") or {}
    return {
        "name": metric,
        "kind": "properties",
        "about": _JUDGED[metric][0],
        "threshold": share(criterion.get("threshold"), 0.5),
        "num_samples": either(options, "num_samples", "numSamples") or _SAMPLES,
        **_properties(criterion.get("rubrics") or []),
    }


def _claims(metric: str, criterion: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": metric, "kind": "claims", "threshold": share(criterion.get("threshold"), 0.8)}


def _properties(rubrics: Sequence[Any]) -> dict[str, Any]:
    found: list[dict[str, str]] = []
    taken = set[str]()
    for rubric in rubrics:
        content = either(rubric, "rubric_content", "rubricContent") if isinstance(rubric, Mapping) else None
        text = either(content, "text_property", "textProperty") if isinstance(content, Mapping) else None
        if not isinstance(text, str) or not text.strip():
            raise NotImportable("a rubric has no `rubric_content.text_property`")
        id_ = name_of(str(either(rubric, "rubric_id", "rubricId") or f"property_{len(found) + 1}"))
        if id_ in taken:
            raise NotImportable(f"the rubric id {id_!r} is given twice")
        taken.add(id_)
        found.append({"id": id_, "text": text.strip()})
    if not found:
        raise NotImportable("a criterion has no `rubrics`")
    return {"properties": found}


def _case_rubrics(data: Any, remarks: list[str]) -> Iterator[tuple[str, list[Any]]]:
    """Rubrics of eval cases and their invocations, by type; each text once."""
    by_type: dict[str, dict[str, Any]] = {}
    for rubric in _of_cases(data):
        type_ = rubric.get("type") if isinstance(rubric, Mapping) else None
        if type_ not in _BY_TYPE:
            remarks.append(f"a rubric of a case has type {type_!r}, which no metric of google-adk reads; not imported")
            continue
        by_type.setdefault(type_, {}).setdefault(str(either(rubric, "rubric_id", "rubricId")), rubric)
    yield from ((type_, list(rubrics.values())) for type_, rubrics in by_type.items())


def _of_cases(data: Any) -> Iterator[Any]:
    if not isinstance(data, Mapping):
        return
    cases = either(data, "eval_cases", "evalCases") or ([data] if "conversation" in data else [])
    for case in cases:
        yield from case.get("rubrics") or ()
        for turn in case.get("conversation") or ():
            yield from turn.get("rubrics") or ()
