"""The pages over a real store: what they show, how they are filtered, and that nothing in a trace is more than text."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from monitor.model.invocation import Capture, Completeness, Invocation, SettledBy, ToolCall, ToolStatus
from monitor.model.run import Evaluation, JournalPosition, Level
from monitor.model.verdict import Criterion, NotSelected, Outcome
from monitor.server.pages.invocations import PAGE_SIZE
from monitor.server.pages.site import PAGES
from tests.contracts.store_material import (
    T0,
    failure_of,
    invocation,
    leave_all,
    request,
    settlement,
    take_all,
    verdict_of,
)
from tests.pages.served import ALARM, Elements, Pages

EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)>\u202egnp.exe\x00'
OWN_SCRIPTS = {"/static/theme.js", "/static/pages.js"}


def draw(served: Pages, *invocations: Invocation) -> list[Evaluation]:
    """Store invocations that settle as they end, run a tick that takes all of them, and claim their evaluations."""
    served.store.save_traces([settlement(one, settled_at=one.ended_at / 1e9) for one in invocations])
    served.clock.advance(1)
    served.store.execute_run(request(tick=served.clock.now()), take_all)
    return list(served.store.claim_evaluations(1000, served.clock.now(), 60))


def judged(served: Pages, *names: str, **changes: Any) -> list[Evaluation]:
    """Draw invocations, each a conversation of its own, that ended a while ago one after the other."""
    ended = int((T0 + 3000) * 1e9)
    plain = {"conversation_id": None}
    return draw(
        served,
        *(invocation(name, **(plain | {"ended_at": ended + n * 10**9} | changes)) for n, name in enumerate(names)),
    )


def finish(served: Pages, evaluations: list[Evaluation], outcome: Outcome = Outcome.PASS, **changes: Any) -> None:
    """Give all of them the same verdict."""
    served.store.finish_evaluations([(one, verdict_of(one, outcome, **changes)) for one in evaluations])


def inert(page: Elements) -> None:
    """A page holds no script but our own files, no style or handler in its elements, and no image but our icon."""
    assert {urlsplit(str(one["src"])).path for one in page.all("script")} <= OWN_SCRIPTS
    for tag, attributes in page.found:
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
        assert tag not in ("iframe", "object", "embed", "style", "base")
    assert {urlsplit(str(one["src"])).path for one in page.all("img")} <= {"/static/icon.svg"}


async def test_headers(served: Pages) -> None:
    """Every page, also an error, allows our own style and script files and nothing else, and is not kept by browsers."""
    for path in (
        "/",
        "/monitors/m",
        "/invocations",
        "/labels",
        "/health",
        "/sign-in",
        "/monitors/other",
        "/invocations?limit=x",
    ):
        answer = await served.answer("GET", path)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'; style-src 'self'; script-src 'self'" in policy
        assert "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        inert(Elements(await answer.text()))


async def test_files_may_be_kept(served: Pages) -> None:
    """Style and script are kept by browsers under an address that changes with them; other files are not served."""
    _, page = await served.get("/")
    for address in [
        str(page.all("link", rel="stylesheet")[0]["href"]),
        *(str(one["src"]) for one in page.all("script")),
    ]:
        answer = await served.answer("GET", address)
        assert (answer.status, "immutable" in answer.headers["Cache-Control"]) == (200, True)
        assert "no-cache" in (await served.answer("GET", address.split("?")[0])).headers["Cache-Control"]
    for path in ("/static/", "/static/none.css", "/static/..%2fsite.py", "/static/%2e%2e/site.py"):
        assert (await served.answer("GET", path)).status == 404


async def test_the_overview(served: Pages) -> None:
    """A monitor with its pass rate, interval, objective and how it stands; the link leads to its failing answers."""
    finish(served, judged(served, *(f"g{n}" for n in range(30))))
    finish(served, judged(served, *(f"b{n}" for n in range(10))), Outcome.FAIL)
    status, page = await served.get("/")
    assert (status, "75.0 %" in page.text, "below objective" in page.text) == (200, True, True)
    (failing,) = [one for one in page.all("a") if "verdict=fail" in str(one["href"])]
    query = parse_qs(urlsplit(str(failing["href"])).query)
    assert query == {
        "monitor": ["m"], "rubric": ["booking"], "agent": ["restaurant-bot"], "agent_version": ["1.4"], "verdict": ["fail"],
        "since": ["1h"],
    }  # fmt: skip
    _, answers = await served.get(str(failing["href"]))
    assert len([one for one in answers.all("a") if str(one["href"]).startswith("/invocations/")]) == 10


async def test_why_nothing_is_judged(served: Pages) -> None:
    """Where a glob matches nobody, the overview and the monitor's page say how many were looked at and what was meant."""
    served.monitors = [{**served.monitors[0], "select": {"agent": ["resturant-*"]}}]
    served.store.save_traces([settlement(invocation(name)) for name in "abc"])
    served.store.execute_run(request(), leave_all(NotSelected.FILTERED, "agent"))
    for path in ("/", "/monitors/m"):
        assert (
            "0 of 3 settled invocations matched agent glob resturant-*; nearest seen restaurant-bot."
            in (await served.get(path))[1].text
        )


async def test_the_monitor(served: Pages) -> None:
    """History as inline SVG, criteria ranked, counts by reason, and the newest failing answers."""
    low = (Criterion("policy", 1, True, 9, "broken"), Criterion("quality", 5, True, 5))
    finish(served, judged(served, "a", "b", "c"), Outcome.FAIL, criteria=low)
    status, page = await served.get("/monitors/m?window=1d")
    assert status == 200
    assert len(page.all("path", **{"class": "band"})) == 1
    (point,) = page.all("a", **{"class": "point"})
    assert len([1 for one in (await served.get(str(point["href"])))[1].all("li") if one.get("class") == "answer"]) == 3
    assert "policy" in page.text and "51.4 %" in page.text  # 9 x 4 of 5 x 14
    assert "drawn for judging3" in page.text.replace("\n", "").replace(" ", "").replace(
        "drawnforjudging", "drawn for judging"
    )
    assert len([one for one in page.all("li") if one.get("class") == "answer"]) == 3
    assert (await served.get("/monitors/other"))[0] == 404


async def test_a_regression_is_acknowledged(served: Pages) -> None:
    """An alarm stands on overview and monitor with what fell; the button ends it, a second press finds none."""
    served.alarms.append(dict(ALARM))
    for path in ("/", "/monitors/m"):
        text = (await served.get(path))[1].text
        assert "got worse at booking" in text and "policy" in text
    _, page = await served.get("/monitors/m")
    (form,) = [one for one in page.all("form") if one.get("action") == "/regressions/a1/ack"]
    sent = {"csrf": str(page.all("input", name="csrf")[0]["value"])}
    answer = await served.answer("POST", str(form["action"]), sent)
    assert (answer.status, answer.headers["Location"]) == (303, "/monitors/m#regressions")
    assert served.acknowledged == ["a1"]
    assert "got worse" not in (await served.get("/"))[1].text
    assert (await served.answer("POST", str(form["action"]), sent)).status == 404


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", "dcba"),
        ("?verdict=fail", "ba"),
        ("?verdict=fail&agent=other-bot", "b"),
        ("?monitor=m&rubric=booking&verdict=pass", "dc"),
        ("?agent_version=2.0", "d"),
        ("?criterion=policy&verdict=fail", "ba"),
        ("?since=&until=&agent=&verdict=fail&criterion=", "ba"),
        ("?since=2026-09-21T15:03:22Z", "dc"),
        ("?conversation_id=talk-b", "b"),
        ("?agent=nobody", ""),
    ],
)
async def test_filters(served: Pages, query: str, names: str) -> None:
    """Each filter by itself and together; what a form leaves empty filters nothing."""
    ended = [int((T0 + 3000 + n) * 1e9) for n in range(4)]
    made = [
        invocation("a", ended_at=ended[0]),
        invocation("b", ended_at=ended[1], agent_name="other-bot", conversation_id="talk-b"),
        invocation("c", ended_at=ended[2]),
        invocation("d", ended_at=ended[3], agent_version="2.0"),
    ]
    for evaluation in draw(served, *made):
        failed = evaluation.invocation.id in (made[0].id, made[1].id)
        criteria = (Criterion("policy", 2 if failed else 5, True, 9),)
        finish(served, [evaluation], Outcome.FAIL if failed else Outcome.PASS, criteria=criteria)
    status, page = await served.get(f"/invocations{query}")
    assert status == 200
    known = {f"/invocations/{one.id}": name for name, one in zip("abcd", made, strict=True)}
    assert "".join(known[path] for path in listed(page)) == names


def listed(page: Elements) -> list[str]:
    """The addresses of the invocations of a listing."""
    links = (str(one["href"]).split("#")[0] for one in page.all("a", **{"class": "row-link"}))
    return [link for link in links if link.startswith("/invocations/")]


async def test_pages_of_the_listing(served: Pages) -> None:
    """`older` goes through everything once with the filters kept, `newest` leads back."""
    finish(served, judged(served, *(f"n{n}" for n in range(PAGE_SIZE + 7))), Outcome.FAIL)
    _, first = await served.get("/invocations?verdict=fail")
    (older,) = [str(one["href"]) for one in first.all("a") if "data-older" in one]
    _, second = await served.get(older)
    assert (len(listed(first)), len(listed(second))) == (PAGE_SIZE, 7)
    assert len({*listed(first), *listed(second)}) == PAGE_SIZE + 7
    (newest,) = [str(one["href"]) for one in second.all("a") if "data-newer" in one]
    assert listed((await served.get(newest))[1]) == listed(first)


async def test_what_is_not_there(served: Pages) -> None:
    """A window that the monitor has not is a page that names those it has; at an unknown path people get a page, programs JSON."""
    status, page = await served.get("/monitors/m?window=foo")
    assert (status, "window: should be one of 1h" in page.text) == (400, True)
    answer = await served.answer("GET", "/monitor", Accept="text/html,*/*;q=0.8")
    assert (answer.status, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "Content-Security-Policy" in answer.headers
    answer = await served.answer("GET", "/monitor")
    assert (answer.status, answer.headers["Content-Type"].split(";")[0]) == (404, "application/problem+json")


@pytest.mark.parametrize("query", ["verdict=wrong", "since=yesterday", "limit=0", "cursor=x", "colour=red"])
async def test_wrong_filters(served: Pages, query: str) -> None:
    """A filter that means nothing is a page that says what would be right."""
    status, page = await served.get(f"/invocations?{query}")
    assert (status, query.split("=", maxsplit=1)[0] in page.text) == (400, True)


async def test_one_invocation(served: Pages) -> None:
    """The conversation in order with arguments, results and what is missing; the verdict with its evidence marked where it stands."""
    calls = (
        ToolCall("find_table", arguments={"size": 9}, result="free", result_known=True, status=ToolStatus.OK),
        ToolCall("ask_kitchen", arguments={}, error="closed", status=ToolStatus.ERROR, agent_name="helper"),
        ToolCall("book_table", arguments={"size": 9}, status=ToolStatus.PENDING),
    )
    capture = {"tool_calls[2].result": Capture.REDACTED}
    evaluations = judged(
        served, "a", tool_calls=calls, final_response="Booked for nine.",
        completeness=Completeness(SettledBy.ROOT_ENDED, ("tool_definitions",), capture, 2),
    )  # fmt: skip
    criteria = (
        Criterion("policy", 1, True, 9, "broken", ("booked FOR nine", "never said so")),
        Criterion("quality", 5, True, 5, "fine"),
    )
    finish(served, evaluations, Outcome.FAIL, criteria=criteria)
    status, page = await served.get(f"/invocations/{evaluations[0].invocation.id}")
    assert status == 200
    order = [
        page.text.index(text)
        for text in ("Be kind.", "Hello", "find_table", "ask_kitchen", "book_table", "Booked for nine.")
    ]
    assert order == sorted(order)
    assert [one["class"] for one in page.all("article")] == [
        "turn user earlier", "turn user", "turn tool", "turn tool sub", "turn tool", "turn assistant",
    ]  # fmt: skip
    assert page.all("mark") == [{"class": "short"}]
    (anchor,) = [str(one["id"]) for one in page.all("a") if str(one.get("id", "")).startswith("e")]
    assert [one for one in page.all("a") if one.get("href") == f"#{anchor}"]
    for text in (
        "by helper",
        "redacted or erased",
        "tool definitions",
        "not found in the text",
        "never said so",
        "2 late spans",
    ):
        assert text in page.text, text
    assert f"https://traces.example/{evaluations[0].invocation.trace_id}" in [one.get("href") for one in page.all("a")]
    assert (await served.get("/invocations/unknown"))[0] == 404


async def test_what_has_no_verdict(served: Pages) -> None:
    """A failed evaluation, one that waits and a monitor that did not draw are told, with the reason."""
    failed, waits = judged(served, "a", "b")
    served.store.finish_evaluations([(failed, failure_of(failed))])
    assert "timeout: no answer within 60 s" in (await served.get(f"/invocations/{failed.invocation.id}"))[1].text
    assert "pending" in (await served.get(f"/invocations/{waits.invocation.id}"))[1].text
    served.store.save_traces([settlement(invocation("c"))])
    served.store.execute_run(request(tick=T0 + 120), leave_all(NotSelected.FILTERED, "agent"))
    assert "filtered: agent" in (await served.get(f"/invocations/{invocation('c').id}"))[1].text


async def test_erased_content(served: Pages) -> None:
    """Once content is erased the pages say so and show what is left."""
    finish(served, judged(served, "a"), Outcome.FAIL)
    served.store.forget(trace_id=invocation("a").trace_id)
    assert "has been erased" in (await served.get("/invocations"))[1].text
    text = (await served.get(f"/invocations/{invocation('a').id}"))[1].text
    assert "redacted or erased" in text and "table for Ada" not in text


async def test_hostile_traces(served: Pages) -> None:
    """Whatever agents, tools, users and judges write, names included, is text on every page."""
    calls = (ToolCall(EVIL, arguments={EVIL: EVIL}, result=EVIL, error=EVIL, result_known=True, agent_name=EVIL),)
    evaluations = judged(
        served, "a", agent_name=EVIL, agent_version=EVIL, environment=EVIL, service=EVIL, model=EVIL, conversation_id=EVIL,
        user_input=EVIL, final_response=EVIL, system_instructions=EVIL, tool_calls=calls, error=EVIL, attributes={EVIL: EVIL},
    )  # fmt: skip
    criteria = (Criterion(EVIL, 1, True, 9, EVIL, (EVIL, "alert"), {EVIL: 1}),)
    finish(served, evaluations, Outcome.FAIL, criteria=criteria, explanation=EVIL, judge_model=EVIL)
    served.alarms.append(
        {
            **ALARM,
            "agent": EVIL,
            "rubric": EVIL,
            "agent_version": EVIL,
            "dimension": {"id": EVIL, "before": 1.0, "since": 0.5},
        }
    )
    served.monitors = [
        {**served.monitors[0], "labels": {EVIL: EVIL}, "select": {"agent": EVIL}, "waiting_for_judge": [EVIL]}
    ]
    address = f"/invocations/{evaluations[0].invocation.id}"
    for path in ("/", "/monitors/m", "/invocations", "/invocations?verdict=fail", address, "/labels", "/health"):
        status, page = await served.get(path)
        assert status == 200, path
        inert(page)
        assert "\u202e" not in page.text and "\x00" not in page.text
    assert page.text
    answer = await served.answer("GET", f"{address}/text?part=final_response")
    assert (answer.headers["Content-Type"], await answer.text()) == ("text/plain; charset=utf-8", EVIL)


async def test_hostile_filters(served: Pages) -> None:
    """What stands in an address comes back as text."""
    from urllib.parse import quote

    for path in (
        f"/invocations?agent={quote(EVIL)}",
        f"/invocations?criterion={quote(EVIL)}",
        f"/labels?labeler={quote(EVIL)}",
    ):
        status, page = await served.get(path)
        assert status == 200
        inert(page)
    assert (await served.get(f"/monitors/{quote(EVIL)}"))[0] == 404


async def test_long_texts(served: Pages) -> None:
    """A line of a megabyte is cut in the page, and all of it is a page of its own."""
    line = "x" * 1_000_000 + "the end"
    (evaluation,) = judged(served, "a", final_response=line)
    address = f"/invocations/{evaluation.invocation.id}"
    answer = await served.answer("GET", address)
    assert len(await answer.text()) < 60_000
    (whole,) = [str(one["href"]) for one in Elements(await answer.text()).all("a") if "/text?part=" in str(one["href"])]
    assert await (await served.answer("GET", whole)).text() == line
    assert len(await (await served.answer("GET", "/invocations")).text()) < 60_000
    assert (await served.answer("GET", f"{address}/text?part=other")).status == 404


async def test_invalid_text(served: Pages) -> None:
    """Half of a surrogate pair, which cannot be sent as UTF-8, is shown by its number."""
    (evaluation,) = judged(served, "a", final_response="broken \ud83d end")
    status, page = await served.get(f"/invocations/{evaluation.invocation.id}")
    assert (status, "broken U+D83D end" in page.text) == (200, True)
    assert (await served.get("/invocations"))[0] == 200


async def test_health(served: Pages) -> None:
    """What dialects lack and which evaluations failed."""
    (evaluation,) = judged(served, "a")
    served.store.finish_evaluations([(evaluation, failure_of(evaluation))])
    _, page = await served.get("/health")
    for text in ("gen_ai", "system instructions", "timeout"):
        assert text in page.text


async def test_labels(served: Pages) -> None:
    """A draw, a label with the verdict hidden before, the verdict afterwards, and agreement; another person is asked as well."""
    finish(served, judged(served, "a", "b"), Outcome.FAIL, explanation="because it is late")
    csrf = await served.csrf()
    drawn = {"csrf": csrf, "series": "m / booking", "size": "2", "labeler": "ada"}
    answer = await served.answer("POST", "/labels/draws", drawn)
    assert (answer.status, answer.headers["Location"]) == (303, "/labels/next?monitor=m&rubric=booking&labeler=ada")
    queue = answer.headers["Location"]
    seen = set()
    for label in ("fail", "pass"):
        status, page = await served.get(queue)
        assert (status, "because it is late" in page.text, page.all("span", **{"class": "chip v-fail"})) == (
            200,
            False,
            [],
        )
        form = {name: str(page.all("input", name=name)[0]["value"]) for name in ("csrf", "draw", "labeler")}
        early = await served.answer("GET", f"/labels/answered?draw={form['draw']}&labeler=ada")
        assert (early.status, early.headers["Location"]) == (303, queue)
        seen.add(form["draw"])
        answer = await served.answer("POST", "/labels", {**form, "label": label, "comment": "I <b>say</b>"})
        assert answer.status == 303
        _, told = await served.get(answer.headers["Location"])
        assert "because it is late" in told.text
        assert ("You agree" if label == "fail" else "You differ") in told.text
    assert len(seen) == 2
    assert (await served.answer("GET", queue)).headers["Location"] == "/labels?labeler=ada"
    _, page = await served.get("/labels?labeler=ada")
    assert "50.0 %" in page.text and "I <b>say</b>" in page.text
    assert "label \u2192" in (await served.get("/labels?labeler=bo"))[1].text


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/labels", {"draw": "none", "label": "pass"}),
        ("/labels", {"draw": "none", "label": "perhaps"}),
        ("/labels/draws", {"series": "m / booking", "size": "0"}),
        ("/labels/draws", {"series": "other / booking"}),
        ("/labels/draws", {"series": "m / booking"}),
    ],
)
async def test_wrong_labels(served: Pages, path: str, form: dict[str, str]) -> None:
    """A label or draw of what is not there is refused with a page."""
    answer = await served.answer("POST", path, {"csrf": await served.csrf(), **form})
    assert answer.status in (400, 404)
    assert answer.headers["Content-Type"].startswith("text/html")


async def test_a_browser_on_an_alerts_link(served: Pages) -> None:
    """The link of an alert leads programs to JSON and people to the failing answers."""
    finish(served, judged(served, "a"), Outcome.FAIL)
    link = "/api/v1/verdicts?verdict=fail&since=1d&monitor=m&rubric=booking&agent=restaurant-bot"
    answer = await served.answer("GET", link, Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert answer.status == 303
    assert len(listed((await served.get(answer.headers["Location"]))[1])) == 1
    answer = await served.answer("GET", link)
    assert answer.headers["Content-Type"] == "application/json"


async def test_a_fault_shows_nothing(
    served: Pages, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault that nobody foresaw is a page without its message, which could quote content; the log has the place only."""

    def broken(self: object, query: object) -> None:
        raise RuntimeError(EVIL)

    monkeypatch.setattr(type(served.store), "list_answers", broken)
    status, page = await served.get("/invocations")
    assert (status, "alert" in page.text + caplog.text) == (500, False)


async def test_head_requests(served: Pages) -> None:
    """Every page that can be read answers HEAD like GET, without a body."""
    for page in PAGES:
        path = page.path.replace("{name}", "m").replace("{id}", "x")
        if page.method == "GET":
            answer = await served.answer("HEAD", path)
            assert (await served.answer("GET", path)).status == answer.status
            assert await answer.read() == b""


async def test_earlier_revisions_are_linked_and_shown(served: Pages) -> None:
    """The page of a revised invocation links what was there before; that shows the old conversation and verdict, and leads back."""
    (first,) = judged(served, "a", user_input="the old question")
    finish(served, [first], Outcome.FAIL, explanation="the old reason")
    changes = {"conversation_id": None, "ended_at": first.invocation.ended_at, "revision": 2}
    revised = settlement(
        invocation("a", user_input="the new question" + "x" * 30_000, **changes),
        consumed=JournalPosition(9, 1), rejudge=True, settled_at=served.clock.now(),
    )  # fmt: skip
    served.store.save_traces([revised])
    again = list(served.store.claim_evaluations(10, served.clock.now() + 1, 60))
    finish(served, again, Outcome.PASS, explanation="the new reason")
    path = f"/invocations/{first.invocation.id}"
    _, newest = await served.get(path)
    assert "the new reason" in newest.text and "the old reason" not in newest.text
    assert newest.all("a", href=f"{path}?revision=1")
    assert newest.all("a", href=f"{path}/text?part=user_input")
    _, old = await served.get(f"{path}?revision=1")
    assert "the old question" in old.text and "the old reason" in old.text and "the new question" not in old.text
    assert old.all("a", href=path)
    inert(old)
    text = await served.answer("GET", f"{path}/text?part=user_input&revision=1")
    assert await text.text() == "the old question"
    assert (await served.get(f"{path}?revision=7"))[0] == 404
    api = await served.answer("GET", f"/api/v1{path}/revisions")
    (item,) = (await api.json())["items"]
    assert (item["invocation"]["revision"], item["verdicts"][0]["verdict"]) == (1, "fail")


async def test_a_conversation(served: Pages) -> None:
    """Its page shows all turns with evidence where it stands and leads to each; a turn's page leads to it; the listing of verdicts shows its ends."""
    one = invocation("a", conversation_id="talk/1 & 2", user_input="first question", final_response="which day?")
    two = invocation("b", conversation_id="talk/1 & 2", final_response="booked for nine", started_at=one.started_at + 1)
    for turn in (one, two):
        served.store.save_traces([settlement(turn, conversation_monitors=("m",), monitors=())])
    served.store.complete_conversations(T0 + 50, ("m",), T0 + 60)
    served.store.execute_run(request(tick=T0 + 70, level=Level.CONVERSATION), take_all)
    evaluations = list(served.store.claim_evaluations(10, T0 + 80, 60))
    finish(served, evaluations, Outcome.FAIL, criteria=(Criterion("policy", 1, True, 9, "", ("WHICH day",)),))
    path = f"/invocations/{quote('conversation:talk/1 & 2', safe='')}"
    status, page = await served.get(path)
    assert status == 200
    order = [
        page.text.index(text)
        for text in ("Turn 1 of 2", "first question", "which day?", "Turn 2 of 2", "booked for nine")
    ]
    assert order == sorted(order)
    for link in (f"/invocations/{one.id}", f"/invocations/{two.id}", "#e0-0-0"):
        assert page.all("a", href=link), link
    inert(page)
    _, turn_page = await served.get(f"/invocations/{one.id}")
    assert turn_page.all("a", href=path)
    text = await (await served.answer("GET", f"{path}/text?part=turns[0].user_input")).text()
    assert text == "first question"
    _, listing = await served.get("/invocations?verdict=fail")
    assert "first question" in listing.text and "booked for nine" in listing.text and "2 turns" in listing.text
    _, every = await served.get("/invocations")
    assert not every.all("a", href=path)
    api = await served.answer("GET", f"/api/v1{path}")
    assert [turn["id"] for turn in (await api.json())["turns"]] == [one.id, two.id]
