"""The API over a real store: listings, single things, erasing, and what is promised for later."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from monitor.clock import rfc3339
from monitor.model.evidence import RegressionState
from monitor.model.verdict import NotSelected, Outcome
from monitor.model.watched import WatchedRubric
from monitor.regression.series import Series, Terms
from monitor.server.endpoints import ENDPOINTS
from tests.contracts.store_material import (
    BOOKING,
    SECRET,
    T0,
    draw_and_claim,
    failure_of,
    invocation,
    leave_all,
    request,
    settlement,
    verdict_of,
)
from tests.regression.verdicts import row
from tests.server.serving import Served


def _judge(served: Served, *names: str, outcome: Outcome = Outcome.PASS) -> None:
    """Invocations one second apart, judged a minute later."""
    claimed = draw_and_claim(
        served.store,
        *(invocation(name, ended_at=int((T0 + place) * 1e9)) for place, name in enumerate(names)),
    )
    served.store.finish_evaluations([(evaluation, verdict_of(evaluation, outcome)) for evaluation in claimed])


async def test_invocations(served: Served) -> None:
    """Invocations are listed newest first, and one is found by its id, in the shape of the contract."""
    _judge(served, "a", "b")
    found = await served.items("/api/v1/invocations")
    assert [item["id"] for item in found] == [invocation("b").id, invocation("a").id]
    assert await served.items("/api/v1/invocations", trace_id=invocation("a").trace_id.upper()) == [found[1]]
    assert await served.items("/api/v1/invocations", agent="nobody") == []
    status, one = await served.get(f"/api/v1/invocations/{invocation('a').id}")
    assert (status, one["user_input"], one["tool_calls"][0]["arguments"]) == (200, SECRET, {"size": 4})


async def test_pages(served: Served) -> None:
    """A listing goes on at next_cursor until there is none, each item once; a cursor of elsewhere is refused."""
    _judge(served, *"abcde")
    seen: list[str] = []
    cursor: dict[str, str] = {}
    for size in (2, 2, 1):
        status, page = await served.get("/api/v1/verdicts", limit="2", **cursor)
        assert (status, len(page["items"])) == (200, size)
        seen += [item["invocation_id"] for item in page["items"]]
        cursor = {"cursor": page["next_cursor"]}
    assert cursor == {"cursor": None}
    assert sorted(seen) == sorted(invocation(name).id for name in "abcde")
    status, found = await served.get("/api/v1/verdicts", cursor="nonsense")
    assert (status, found["parameter"]) == (400, "cursor")


async def test_times(served: Served) -> None:
    """`since` and `until` are RFC 3339 times or durations before now, by the invocation's end or by the time of judging."""
    _judge(served, "a", "b", "c")

    async def ends(**parameters: str) -> int:
        return len(await served.items("/api/v1/verdicts", **parameters))

    assert await ends(since=rfc3339(T0 + 1)) == 2
    assert await ends(until=rfc3339(T0 + 1)) == 1
    assert await ends(since="59m59s") == 2
    assert await ends(until="59m59s") == 1
    assert await ends(since="30m") == 0
    assert await ends(since=rfc3339(T0 + 50), by="judged_at") == 3
    assert await ends(until=rfc3339(T0 + 50), by="judged_at") == 0
    async with served.session.get(f"{served.url}/api/v1/verdicts?since=2026-01-01T00:00:00+01:00") as answer:
        assert answer.status == 200


async def test_verdicts(served: Served) -> None:
    """Verdicts are filtered by monitor, rubric and verdict, and link to their trace where a link is configured."""
    _judge(served, "a", outcome=Outcome.FAIL)
    served.program.trace_link = "https://tempo.example/{trace_id}?x={y}"
    (found,) = await served.items("/api/v1/verdicts", monitor="m", rubric="booking", verdict="fail")
    assert found["links"] == {"trace": f"https://tempo.example/{invocation('a').trace_id}?x={{y}}"}
    assert found["ended_at"] == "2026-09-21T14:13:20.000000000Z"
    assert await served.items("/api/v1/verdicts", verdict="pass") == []
    assert await served.items("/api/v1/verdicts", monitor="other") == []


async def test_evaluations_and_runs(served: Served) -> None:
    """Evaluations are listed by state, a failed one with its error; runs by monitor and outcome."""
    waiting, failing = draw_and_claim(served.store, invocation("a"), invocation("b"))
    served.store.finish_evaluations([(failing, failure_of(failing))])
    (error,) = await served.items("/api/v1/evaluations", state="error")
    assert error["error"]["type"] == "timeout"
    (pending,) = await served.items("/api/v1/evaluations", state="pending", monitor="m")
    assert pending["invocation_id"] == waiting.invocation.id
    (run,) = await served.items("/api/v1/runs", monitor="m", outcome="done")
    assert (run["drawn"], run["tick"]) == (2, rfc3339(T0 + 60))
    assert await served.items("/api/v1/runs", outcome="failed") == []


async def test_trace(served: Served) -> None:
    """A trace is 404 until an invocation of it is stored, then shows its invocations."""
    one = invocation("a")
    path = f"/api/v1/traces/{one.trace_id}"
    assert (await served.get(path))[0] == 404
    served.store.save_traces([replace(settlement(one), changes=())])
    assert (await served.get(path))[0] == 404
    served.store.save_traces([settlement(one)])
    status, found = await served.get(path)
    assert (status, found["settled_by"]) == (200, "root_ended")
    assert [item["id"] for item in found["invocations"]] == [one.id]
    status, found = await served.get("/api/v1/traces/xyz")
    assert (status, found["parameter"]) == (400, "trace_id")


async def test_decisions(served: Served) -> None:
    """Decisions of a trace say per monitor why it was not judged; without a trace id the request is refused."""
    one = invocation("a")
    served.store.save_traces([settlement(one)])
    served.store.execute_run(request(), leave_all(NotSelected.FILTERED, "agent: restaurant-bot does not match"))
    (found,) = await served.items("/api/v1/decisions", trace_id=one.trace_id)
    assert (found["monitor"], found["decision"], found["reason"]) == ("m", "not_selected", "filtered")
    status, refused = await served.get("/api/v1/decisions")
    assert (status, refused["parameter"]) == (400, "trace_id")


async def test_forget(served: Served) -> None:
    """DELETE erases the content of a trace or a conversation and says of how many invocations; numbers stay."""
    _judge(served, "a", "b")
    trace_id = invocation("a").trace_id
    assert await served.send("DELETE", "/api/v1/invocations", {"trace_id": trace_id}) == (200, {"forgotten": 1})
    (forgotten,) = await served.items("/api/v1/invocations", trace_id=trace_id)
    assert (forgotten["user_input"], forgotten["model_calls"]) == (None, 2)
    (other,) = await served.items("/api/v1/invocations", trace_id=invocation("b").trace_id)
    assert other["user_input"] == SECRET
    assert await served.send("DELETE", "/api/v1/invocations", {"conversation_id": "conversation-1"}) == (
        200,
        {
            "forgotten": 2,
            "conversations": [
                {"conversation_id": "conversation-1", "service": "bookings", "environment": "production", "turns": 2}
            ],
        },
    )
    status, found = await served.send("DELETE", "/api/v1/invocations", {"trace_id": trace_id, "service": "restaurant"})
    assert (status, found["parameter"]) == (400, "service")
    assert await served.send("DELETE", "/api/v1/invocations", {"conversation_id": "nobody's"}) == (
        200,
        {"forgotten": 0, "conversations": []},
    )
    for wrong in ({}, {"trace_id": trace_id, "conversation_id": "c"}):
        status, found = await served.send("DELETE", "/api/v1/invocations", wrong)
        assert (status, "one of them" in found["detail"]) == (400, True)


async def test_monitors(served: Served) -> None:
    """Monitors come with their last run and pass rates with bounds."""
    _judge(served, "a", "b")
    (monitor,) = await served.items("/api/v1/monitors")
    assert (monitor["name"], monitor["state"], monitor["last_run"]["outcome"]) == ("m", "active", "done")
    rates = {rate["window"]: rate for rate in monitor["pass_rates"]}
    assert set(rates) == {"1h", "1d", "7d"}
    day = rates["1d"]
    assert (day["rubric"], day["agent"], day["agent_version"]) == ("booking", "restaurant-bot", "1.4")
    assert (day["rate"], day["upper"], day["judged"], day["reliable"]) == (1.0, 1.0, 2, True)
    assert (day["interval"], day["lower"]) == (
        "betting",
        pytest.approx(0.025),
    )  # two turns of one conversation: one draw


async def test_collectors_judges_and_regressions(served: Served) -> None:
    """Collectors and judges are what the program says of them; regressions are an empty listing."""
    served.program.judges = [{"name": "default", "problem": "unauthorized"}]
    assert await served.items("/api/v1/judges") == served.program.judges
    served.program.collectors = [{"name": "otlp", "problem": None, "endpoints": ["http://localhost:4318"]}]
    assert await served.items("/api/v1/collectors") == served.program.collectors
    assert await served.items("/api/v1/regressions") == []


async def test_dialects_of_each_agent(served: Served) -> None:
    """Which dialect an agent speaks, in how many invocations, and how many of those that were looked at lack which field."""
    _judge(served, "a", "b")
    found = await served.items("/api/v1/dialects")
    stored = await served.items("/api/v1/invocations")
    assert sum(one["invocations"] for one in found) == len(stored) > 0
    for one in found:
        own = [run for run in stored if (run["agent_name"], run["convention"]) == (one["agent"], one["convention"])]
        lacks = Counter(field for run in own for field in run["completeness"]["missing"])
        assert (one["invocations"], one["looked_at"], one["missing"]) == (len(own), len(own), dict(lacks))


async def test_a_regression_is_listed_and_acknowledged(served: Served) -> None:
    """An alarm comes with its times, failing invocations and their links; acknowledged once, it is no longer there to be acknowledged."""
    rubric = WatchedRubric(BOOKING.rubric, BOOKING.version, "weighted", None, None, 0.9)
    series, terms = Series(BOOKING.version), Terms(("objective",), 100.0, 100.0)
    rows = [row(n, False, rubric_version=BOOKING.version) for n in range(1, 20)]
    (alarm,) = [found for one in rows for found in series.add(one, rubric, terms)]
    state = RegressionState(19, {}, {rows[0].series: series.as_json()})
    served.store.save_regression_state(0, state, {alarm["id"]: alarm})
    served.program.trace_link = "https://traces/{trace_id}"
    (found,) = await served.items("/api/v1/regressions")
    assert (found["state"], found["agent"], found["since"]) == ("open", "bot", rfc3339(T0 + 60))
    assert found["failing"][0]["links"]["trace"].startswith("https://traces/0")
    status, closed = await served.send("POST", f"/api/v1/regressions/{alarm['id']}/ack")
    assert (status, closed["state"]) == (200, "acknowledged")
    status, problem = await served.send("POST", f"/api/v1/regressions/{alarm['id']}/ack")
    assert (status, "lists them" in problem["detail"]) == (404, True)
    assert [one["state"] for one in await served.items("/api/v1/regressions")] == ["acknowledged"]


async def test_a_backfill_names_what_it_wants(served: Served) -> None:
    """Begun by query parameters; one that is missing or wrong is a 400 that names it. What is under way is listed."""
    status, found = await served.send("POST", "/api/v1/backfills?since=1d")
    assert (status, found["parameter"]) == (400, "monitor")
    status, found = await served.send("POST", "/api/v1/backfills?monitor=m&since=1d&limit=0")
    assert (status, found["parameter"]) == (400, "limit")
    status, found = await served.send("POST", "/api/v1/backfills?monitor=m&since=1d&limit=" + "9" * 20)
    assert (status, "a whole number above 0 and below 1,000,000,000,000,000" in found["detail"]) == (400, True)
    assert await served.items("/api/v1/backfills") == []


@pytest.mark.parametrize(
    ("path", "query", "parameter", "right"),
    [
        ("verdicts", {"limit": "0"}, "limit", "from 1 to 1000"),
        ("verdicts", {"limit": "000000001000000"}, "limit", "from 1 to 1000"),
        ("verdicts", {"limit": "1001"}, "limit", "from 1 to 1000"),
        ("verdicts", {"limit": "ten"}, "limit", "from 1 to 1000"),
        ("verdicts", {"limit": "9" * 5000}, "limit", "from 1 to 1000"),
        ("verdicts", {"verdict": "passed"}, "verdict", "pass, fail, not_applicable, unjudgeable"),
        ("verdicts", {"since": "yesterday"}, "since", "RFC 3339"),
        ("verdicts", {"since": "2026-11-18T09:00:00"}, "since", "RFC 3339"),
        ("verdicts", {"since": "1h", "until": "2h"}, "until", "before `since`"),
        ("verdicts", {"by": "started_at"}, "by", "ended_at, judged_at"),
        ("verdicts", {"sinse": "1h"}, "sinse", "`since`"),
        ("verdicts", {"monitor": ""}, "monitor", "empty"),
        ("invocations", {"trace_id": "12"}, "trace_id", "32 hex digits"),
        ("evaluations", {"state": "failed"}, "state", "pending, done, error"),
        ("runs", {"outcome": "ok"}, "outcome", "done, failed, missed"),
        ("collectors", {"name": "otlp"}, "name", "no parameter here"),
    ],
)
async def test_bad_parameters(served: Served, path: str, query: dict[str, str], parameter: str, right: str) -> None:
    """A wrong parameter is answered 400 with its name and what would be right."""
    status, found = await served.get(f"/api/v1/{path}", **query)
    assert (status, found["parameter"]) == (400, parameter)
    assert right in found["detail"]


async def test_a_parameter_given_twice(served: Served) -> None:
    """A parameter that is given twice is refused: one of the two would be ignored."""
    async with served.session.get(f"{served.url}/api/v1/verdicts?limit=1&limit=2") as answer:
        assert (answer.status, (await answer.json(content_type=None))["parameter"]) == (400, "limit")


async def test_unknown_paths_and_methods(served: Served) -> None:
    """Unknown paths, ids and methods are problem details too."""
    for path in ("/nothing", "/api/v1/nothing", "/elsewhere", "/api/v1/invocations/unknown"):
        assert (await served.get(path))[0] == 404
    status, found = await served.send("PUT", "/api/v1/invocations")
    assert (status, "DELETE, GET, HEAD" in found["detail"]) == (405, True)


async def test_openapi_tells_what_is_served(served: Served) -> None:
    """openapi.json names every path, and real answers fit its schemas."""
    _judge(served, "a")
    status, document = await served.get("/api/v1/openapi.json")
    assert status == 200
    declared = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert declared == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}
    page, problem = (document["components"]["schemas"][name] for name in ("Page", "Problem"))
    for endpoint in ENDPOINTS:
        if endpoint.listing and not any(parameter.required for parameter in endpoint.parameters):
            jsonschema.validate((await served.get(endpoint.path))[1], page)
    jsonschema.validate((await served.get("/api/v1/verdicts", limit="x"))[1], problem)


@pytest.mark.parametrize("strange", [float("nan"), float("inf"), "half a pair: \ud83d", {"deep": [float("-inf")]}])
async def test_values_that_json_does_not_have(served: Served, strange: Any) -> None:
    """Arguments with numbers or text that JSON cannot carry do not make a whole listing unreadable."""
    one = invocation("a")
    call = replace(one.tool_calls[0], arguments={"x": strange})
    served.store.save_traces([settlement(replace(one, tool_calls=(call,)))])
    assert len(await served.items("/api/v1/invocations")) == 1
