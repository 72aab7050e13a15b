"""The paths of the API, each declared once: what it takes, what it gives away, and what it is for. Routes and openapi.json are made of this."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.model.run import EvaluationState, Level
from monitor.model.verdict import Outcome
from monitor.server.access import Access
from monitor.server.parameters import PAGE, SINCE, Parameter, amount, flag, number, one_of, time_of, trace_id, word

API = "/api/v1"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one path; `name` finds its handler. `later` is promised and answers 501 until then."""

    method: str
    path: str
    name: str
    summary: str
    access: Access
    parameters: tuple[Parameter, ...] = ()
    listing: bool = False
    later: bool = False
    body: bool = False


_MONITOR = word("monitor", "name of a monitor")
_RUBRIC = word("rubric", "name of a rubric")
_AGENT = word("agent", "the agent label: agent name, else service name")
_BY = one_of("by", "which time `since` and `until` are about", ("ended_at", "judged_at"))
_VERDICT = one_of("verdict", "the verdict", [outcome.value for outcome in Outcome])
_STATE = one_of("state", "where the evaluation stands", [state.value for state in EvaluationState])
_OUTCOME = one_of("outcome", "how the run ended", ("done", "failed", "missed"))
_CONVERSATION = word(
    "conversation_id",
    "conversations whose content is erased: those of that id of all services and environments, or the one of a full name (ID@suffix)",
)
_SERVICE = word("service", "erase only that service's conversations of the id")
_ENVIRONMENT = word("environment", "erase only that environment's conversations of the id")
_OF_CONVERSATION = word("conversation_id", "the conversation that they belong to")
_LEVEL = one_of(
    "level",
    "invocations, or the complete conversations that monitors have judged whole",
    [level.value for level in Level],
)

_BACKFILL = (
    word("monitor", "whose rubrics and selection", required=True),
    time_of("since", "invocations that ended from then on", required=True),
    time_of("until", "and before then; now when left out"),
    flag("dry_run", "begin nothing: say how many, tokens, cost, and how wide the interval gets"),
    flag("errors", "judge failed evaluations again instead of drawing"),
    amount("limit", "draw about so many invocations at most"),
    amount("max_tokens", "stop when so many tokens are used"),
    amount("max_usd", "stop when so much is spent", float),
    word("collector", "a polling collector whose source is read again first"),
)

ENDPOINTS = (
    Endpoint("GET", "/metrics", "metrics", "Metrics for Prometheus: OpenMetrics when asked for, else text.", Access.OPEN),
    Endpoint("GET", "/healthz", "healthz", "200 while the process answers.", Access.OPEN),
    Endpoint("GET", "/readyz", "readyz", "503 while starting, draining, or unable to write; else 200.", Access.OPEN),
    Endpoint("POST", "/-/reload", "reload", "Read the configuration anew, all or nothing.", Access.CHANGE),
    Endpoint(
        "GET", f"{API}/invocations", "invocations", "Invocations, newest first.", Access.CONTENT,
        (trace_id(), _AGENT, _OF_CONVERSATION, _LEVEL, *PAGE), listing=True,
    ),
    Endpoint(
        "GET", f"{API}/invocations/{{id}}/revisions", "revisions",
        "What is kept of an invocation before late data revised it, newest first.", Access.CONTENT, listing=True,
    ),
    Endpoint(
        "GET", f"{API}/invocations/{{id}}", "invocation", "One invocation; `conversation:<id>` gives a conversation with its turns.",
        Access.CONTENT,
    ),
    Endpoint(
        "DELETE", f"{API}/invocations", "forget", "Erase the content of a trace, or of the conversations of an id; numbers stay.",
        Access.CHANGE, (trace_id(), _CONVERSATION, _SERVICE, _ENVIRONMENT),
    ),
    Endpoint(
        "GET", f"{API}/verdicts", "verdicts", "Verdicts, newest first.", Access.CONTENT,
        (_MONITOR, _RUBRIC, _VERDICT, _AGENT, trace_id(), _BY, *PAGE), listing=True,
    ),
    Endpoint(
        "GET", f"{API}/monitors", "monitors", "Monitors: state, last and next run, pass rates with bounds.",
        Access.FIGURES, listing=True,
    ),
    Endpoint(
        "GET", f"{API}/traces/{{trace_id}}", "trace", "A settled trace; 404 until an invocation of it is stored.",
        Access.CONTENT,
    ),
    Endpoint(
        "GET", f"{API}/decisions", "decisions", "Why a trace was or was not judged, per monitor.", Access.CONTENT,
        (trace_id(required=True),), listing=True,
    ),
    Endpoint(
        "GET", f"{API}/evaluations", "evaluations", "Evaluations, newest first.", Access.CONTENT,
        (_STATE, _MONITOR, _RUBRIC, _AGENT, trace_id(), *PAGE), listing=True,
    ),
    Endpoint(
        "GET", f"{API}/runs", "runs", "Runs of schedules, newest first; times are about the tick.", Access.FIGURES,
        (_MONITOR, _OUTCOME, *PAGE), listing=True,
    ),
    Endpoint(
        "GET", f"{API}/collectors", "collectors", "Collectors and what keeps them from delivering.", Access.FIGURES,
        listing=True,
    ),
    Endpoint(
        "GET", f"{API}/dialects", "dialects",
        "Which dialects each agent speaks and how many of its newest invocations lack which fields.", Access.FIGURES,
        listing=True,
    ),
    Endpoint(
        "GET", f"{API}/judges", "judges", "Judges: what they have spent, and what keeps them from judging.",
        Access.FIGURES, listing=True,
    ),
    Endpoint(
        "GET", f"{API}/regressions", "regressions",
        "Alarms, newest first: agent, version, rubric, decisive dimension, since when, and failing invocations.",
        Access.FIGURES, listing=True,
    ),
    Endpoint(
        "POST", f"{API}/regressions/{{id}}/ack", "acknowledge",
        "Acknowledge a regression: its gauge goes to 0 and evidence is collected anew.", Access.CHANGE,
    ),
    Endpoint(
        "POST", f"{API}/labels", "labels",
        "Keep people's labels: {\"items\": [{draw_id, invocation_id, rubric, label, labeler, comment}]}, at most 1000.",
        Access.CHANGE, body=True,
    ),
    Endpoint(
        "POST", f"{API}/labels/draws", "label_draws",
        "Draw judged invocations for people to label; the draw's probabilities are kept, the judge's verdict is hidden.",
        Access.CHANGE, (
            word("monitor", "name of a monitor", required=True), word("rubric", "name of a rubric", required=True),
            number("size", "how many", 1000, 100), SINCE,
        ), listing=True,
    ),
    Endpoint(
        "GET", f"{API}/labels/report", "label_report",
        "What labels say of judges: agreement, sensitivity and specificity, corrected pass rates.",
        Access.CONTENT, (_MONITOR, _RUBRIC), listing=True,
    ),
    Endpoint(
        "POST", f"{API}/backfills", "backfills", "Score history, or say what that would cost.", Access.CHANGE, _BACKFILL
    ),
    Endpoint(
        "POST", f"{API}/backfills/{{id}}/cancel", "cancel_backfill",
        "End a backfill: nothing more is read or drawn, what was drawn is still judged.", Access.CHANGE,
    ),
    Endpoint("GET", f"{API}/backfills", "backfill_list", "Backfills and how far they are.", Access.FIGURES, listing=True),
    Endpoint("GET", f"{API}/openapi.json", "openapi", "What you are reading.", Access.FIGURES),
)  # fmt: skip
