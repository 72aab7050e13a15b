"""The pages in a real browser on a real daemon with recorded traffic: from an alert to the failing answers, labels, sign-in, hostile text."""

from __future__ import annotations

import os
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from selenium.webdriver.common.keys import Keys

from collectors.otlp.file import read_file
from collectors.otlp.rewrite import Rewrite, latest_time, rewritten
from collectors.otlp.sender import sender
from monitor.clock import SystemClock
from monitor.resources import config_folder
from tests.pages.browser import Browser, browser
from tests.pages.population import large_store
from tests.support.agents import provider, run_agent
from tests.support.daemon import Daemon, wait_for
from tests.support.judge_server import judge_server

pytestmark = pytest.mark.service

EVIL = "<script>document.title='owned'</script>\u202egnp.exe <img src=x onerror=\"document.title='owned'\">"
LINE = "x" * 1_000_000
RUBRIC = {
    "name": "party_size_limit", "kind": "check",
    "expect": {"tool_arguments": {"tool": "book_table", "schema": {"properties": {"party_size": {"maximum": 8}}}}},
}  # fmt: skip
CONFIGURATION: dict[str, Any] = {
    "rubrics": [RUBRIC],
    "monitors": {
        "bookings": {
            "select": {"agent": "restaurant-booking"},
            "rubrics": {"party_size_limit": {"objective": 0.95}, "answer_manners": {}},
            "schedule": {"every": "1s"}, "sample": {"rate": 1.0, "max_per_hour": 10_000_000},
            "regression": {"false_alarm_every": 2000},
        },
        "typo": {"select": {"agent": "resturant-*"}, "rubrics": ["final_answer_present"], "schedule": {"every": "1s"}},
        "hostile": {"select": {"agent": "*script*"}, "rubrics": ["final_answer_present"], "schedule": {"every": "1s"}},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def chrome(required_program: Callable[[str, str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    programs = [
        required_program(name, f"apt-get install {package}")
        for name, package in (("chromium", "chromium"), ("chromedriver", "chromium-driver"))
    ]
    with browser(*programs, tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that has judged the demo's recordings, each run as a conversation of its own, and a hostile agent's trace."""
    with judge_server() as server:
        judges = {"default": {"model": "judge", "base_url": server.url, "api_key": "${env:JUDGE_KEY}"}}
        folder = tmp_path_factory.mktemp("daemon")
        found = Daemon(folder, {**CONFIGURATION, "judges": judges}, {"JUDGE_KEY": "k"}).start()
        try:
            replay(found)
            run_agent(
                provider(OTLPSpanExporter(f"http://127.0.0.1:{found.http_port}/v1/traces"), EVIL),
                EVIL,
                EVIL,
                EVIL + LINE,
            )
            wait_for(lambda: len(found.items("/api/v1/verdicts?monitor=bookings")) >= 2 * 78, "the verdicts")
            wait_for(lambda: found.items("/api/v1/verdicts?monitor=hostile"), "the hostile trace's verdict")
            wait_for(lambda: found.items("/api/v1/regressions"), "the regression")
            yield found
        finally:
            found.stop()


def replay(daemon: Daemon) -> None:
    """Thirteen rounds of the recordings, as if they had just ended; the worse version last."""
    send = sender(f"http://127.0.0.1:{daemon.http_port}").send
    conversation = re.compile(rb"01a22cad-[0-9a-f-]{27}")
    for name in ("restaurant-booking.good", "restaurant-booking.worse"):
        runs = list(read_file(config_folder() / "demo" / f"{name}.otlp.jsonl"))
        for number in range(6 * len(runs)):
            body, signal = runs[number % len(runs)]
            body = conversation.sub(os.urandom(18).hex().encode(), body)
            shift = int(SystemClock().now() * 1e9) - latest_time(body, signal)
            send(rewritten(body, signal, Rewrite(shift, os.urandom(8).hex())), signal)


@pytest.fixture
def page(chrome: Browser) -> Iterator[Browser]:
    """The browser; a page that the browser complained of fails the test."""
    chrome.driver.delete_all_cookies()
    chrome.complaints()
    yield chrome
    assert chrome.complaints() == []


def settled(page: Browser) -> None:
    """Wait for figures that are being added up."""
    page.until(lambda one: "being added up" not in one.text.lower(), "figures")


def test_every_page_fits_and_obeys_its_policy(page: Browser, daemon: Daemon) -> None:
    """Each page loads without a complaint of the browser, in both themes, and is no wider than a window or a telephone."""
    (failing, *_) = daemon.items("/api/v1/verdicts?verdict=fail&monitor=bookings")
    paths = (
        "/",
        "/monitors/bookings",
        "/invocations",
        f"/invocations/{failing['invocation_id']}",
        "/labels",
        "/health",
        "/sign-in",
    )
    backgrounds = set()
    for dark in (False, True):
        page.dark(dark)
        for path in paths:
            page.open(daemon.url + path)
            assert page.all("h1"), path
            assert not page.overflows(), path
            backgrounds.add(page.one("body").value_of_css_property("background-color"))
    assert len(backgrounds) == 2
    page.driver.set_window_size(520, 900)
    for path in paths:
        page.open(daemon.url + path)
        assert not page.overflows(), path
    page.driver.set_window_size(1360, 900)
    page.dark(False)


def test_from_an_alert_to_the_failing_answer(page: Browser, daemon: Daemon) -> None:
    """The link of a generated alert opens the failing answers; one more click opens the answer with what was wrong."""
    page.open(
        f"{daemon.url}/api/v1/verdicts?verdict=fail&since=1d&monitor=bookings&rubric=party_size_limit&agent=restaurant-booking"
    )
    assert "/invocations?" in page.url
    assert {chip.text for chip in page.all(".answers .chip")} == {"fail"}
    page.one(".answers .row-link").click()
    page.until(lambda one: one.all(".conversation"), "the conversation")
    assert "is greater than the maximum of 8" in page.text
    assert '"party_size"' in page.text


def test_from_the_monitor_to_the_failing_answer(page: Browser, daemon: Daemon) -> None:
    """The monitor's page shows the history as a plot; two clicks lead to an answer, and a point of the plot leads to its answers."""
    page.open(f"{daemon.url}/monitors/bookings")
    settled(page)
    assert len(page.all(".plot svg")) == 2
    assert page.all(".plot .band")
    points = page.all(".plot .point")
    assert "verdict=fail" in str(points[-1].get_dom_attribute("href"))
    page.one(".rates a.go").click()
    page.until(lambda one: "/invocations?" in one.url, "the failing answers")
    page.one(".answers .row-link").click()
    page.until(lambda one: one.all(".conversation"), "the conversation")


def test_why_nothing_is_judged(page: Browser, daemon: Daemon) -> None:
    """The overview says which glob matched nobody, of how many, and which agent it may have meant."""
    page.open(f"{daemon.url}/")
    settled(page)
    assert re.search(
        r"0 of \d+ settled invocations matched agent glob resturant-\*; nearest seen restaurant-booking", page.text
    )


def test_filters(page: Browser, daemon: Daemon) -> None:
    """A choice filters at once, a text on Enter; the listing and the address follow."""
    page.open(f"{daemon.url}/invocations")
    page.one("#f-verdict option[value=fail]").click()
    page.until(lambda one: "verdict=fail" in one.url, "the filter")
    assert {chip.text for chip in page.all(".answers .chip")} == {"fail"}
    page.press("/")
    page.driver.switch_to.active_element.send_keys("nobody", Keys.ENTER)
    page.until(lambda one: "agent=nobody" in one.url, "the filter")
    assert "No verdict matches" in page.text


def test_the_keyboard(page: Browser, daemon: Daemon) -> None:
    """Rows, pages and help are reached without a mouse; what is typed into a field is no shortcut."""
    page.open(f"{daemon.url}/")
    page.press("gi")
    page.until(lambda one: one.url.endswith("/invocations"), "g i")
    page.press("jj")
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    page.until(lambda one: one.all(".conversation"), "the row")
    page.press("?")
    assert page.one("dialog").is_displayed()
    page.one("dialog button").click()
    page.press("t")
    chosen = page.driver.execute_script("return document.documentElement.dataset.theme")
    page.open(f"{daemon.url}/invocations")
    assert page.driver.execute_script("return document.documentElement.dataset.theme") == chosen
    page.one("#f-agent").send_keys("gh?")
    assert page.url.endswith("/invocations") and not page.one("dialog").is_displayed()
    page.press("t")


def test_evidence_is_shown_where_it_stands(page: Browser, daemon: Daemon) -> None:
    """What a judge says is read beside the conversation; unapplied criteria and scores are told."""
    (verdict, *_) = daemon.items("/api/v1/verdicts?monitor=bookings&rubric=answer_manners")
    page.open(f"{daemon.url}/invocations/{verdict['invocation_id']}")
    assert "answer_manners" in page.text and "no blame" in page.one("aside").get_attribute("textContent")


def test_labels(page: Browser, daemon: Daemon) -> None:
    """A draw is labelled by keyboard with the verdict hidden; agreement shows afterwards, and `rubricd labels` reads the same store."""
    page.open(f"{daemon.url}/labels?labeler=ada")
    page.one("select[name=series] option[value='bookings / party_size_limit']").click()
    page.one("input[name=size]").clear()
    page.one("input[name=size]").send_keys("4")
    page.one("form[action='/labels/draws'] button").click()
    for left in range(4, 0, -1):
        page.until(lambda one: "/labels/next" in one.url and one.all(".choices"), "the next one")
        assert f"{left} left" in page.text
        assert not page.all(".chip.v-fail") and not page.all(".chip.v-pass")
        page.press("f")
        page.until(lambda one: "/labels/answered" in one.url, "the answer")
        assert page.all(".chip.v-fail")
        page.press("n")
    page.until(lambda one: one.url.endswith("/labels?labeler=ada"), "the end of the queue")
    assert "50.0 %" in page.text
    (report,) = daemon.items("/api/v1/labels/report?monitor=bookings")
    assert (report["labels"], report["agreement"]["agreement"]) == (4, 0.5)


def test_a_regression_is_acknowledged(page: Browser, daemon: Daemon) -> None:
    """The alarm stands on the overview; acknowledged on the monitor's page it is gone, in the API as well."""
    page.open(f"{daemon.url}/")
    settled(page)
    page.one(".notice.bad a[href*='#regressions']").click()
    before = len(page.until(lambda one: one.all("form[action$='/ack'] button"), "the alarm"))
    page.one("form[action$='/ack'] button").click()
    page.until(lambda one: len(one.all("form[action$='/ack'] button")) == before - 1, "the alarm to be gone")
    assert "acknowledged" in {one["state"] for one in daemon.items("/api/v1/regressions")}


def test_hostile_text(page: Browser, daemon: Daemon) -> None:
    """Scripts, images and direction marks in a trace are text on every page, and a line of a megabyte is cut with a way to see all of it."""
    page.open(f"{daemon.url}/invocations?monitor=hostile")
    assert "<script>document.title='owned'</script>" in page.text
    assert "U+202E" in page.text
    page.one(".answers .row-link").click()
    page.until(lambda one: one.all(".conversation"), "the conversation")
    assert page.all(".turn.assistant .unseen")
    assert not page.overflows()
    whole = str(page.one(".more a").get_attribute("href"))
    for path in ("/", "/monitors/hostile", "/health"):
        page.open(daemon.url + path)
        settled(page)
        assert "owned" not in page.driver.title
        assert not page.overflows()
    with urllib.request.urlopen(whole, timeout=10) as answer:
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert answer.read().decode() == EVIL + LINE


def test_signing_in(page: Browser, tmp_path: Path) -> None:
    """With tokens every page asks for one, keeps who is signed in, and lets go at sign-out; without, an open port refuses content and names the key."""
    (tmp_path / "tokens").write_text("the-token\n")
    daemon = Daemon(tmp_path, {**CONFIGURATION, "monitors": {}})
    server = {"endpoint": f"0.0.0.0:{daemon.server_port}"}
    daemon.write(
        {**CONFIGURATION, "monitors": {}, "server": server | {"auth": {"bearer_token_file": str(tmp_path / "tokens")}}}
    )
    daemon.start()
    try:
        page.open(f"{daemon.url}/invocations?verdict=fail")
        page.one("input[name=token]").send_keys("wrong", Keys.ENTER)
        page.until(lambda one: "none of the tokens" in one.text, "the refusal")
        assert any("401" in message for message in page.complaints())
        page.one("input[name=token]").send_keys("the-token", Keys.ENTER)
        page.until(lambda one: "verdict=fail" in one.url and "next=" not in one.url, "the page")
        (cookie,) = page.driver.get_cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        page.one("form[action='/sign-out'] button").click()
        page.until(lambda one: one.all("input[name=token]"), "the form")
        page.open(f"{daemon.url}/")
        assert "/sign-in" in page.url
    finally:
        daemon.stop()
    daemon.write({**CONFIGURATION, "monitors": {}, "server": server})
    daemon.start()
    try:
        page.open(f"{daemon.url}/invocations")
        assert "set server.auth.bearer_token_file" in page.text
        assert any("403" in message for message in page.complaints())
    finally:
        daemon.stop()


def test_a_hundred_thousand_invocations(page: Browser, tmp_path: Path) -> None:
    """With 100,000 invocations the first byte of every page comes within 200 ms, the first time already."""
    large_store(tmp_path / "data").close()
    rubrics = [{"name": name, "kind": "check", "expect": {"no_error": True}} for name in ("booking", "tone")]
    monitors = {"m": {"rubrics": ["booking", "tone"], "windows": ["1h", "9999d"], "schedule": {"every": "1h"}}}
    retention = {"content": "9999d", "verdicts": "9999d"}
    storage = {"path": str(tmp_path / "data"), "retention": retention}
    daemon = Daemon(tmp_path, {"rubrics": rubrics, "monitors": monitors, "storage": storage}).start()
    try:
        (failing,) = daemon.get("/api/v1/verdicts?verdict=fail&limit=1")["items"]
        paths = (
            "/", "/monitors/m?window=9999d", "/invocations", "/invocations?agent=travel-desk", "/invocations?verdict=fail&rubric=tone",
            "/invocations?verdict=unjudgeable", f"/invocations/{failing['invocation_id']}", "/labels", "/health",
        )  # fmt: skip
        times = {path: [first_byte(daemon.url + path) for _ in range(3)] for path in paths}
        slow = {path: taken for path, taken in times.items() if sorted(taken)[1] > 0.2}
        assert not slow, times
        page.open(f"{daemon.url}/monitors/m?window=9999d")
        settled(page)
        assert page.all(".plot .point")
    finally:
        daemon.stop()


def first_byte(url: str) -> float:
    """Seconds until the answer begins."""
    started = time.perf_counter()
    with urllib.request.urlopen(url, timeout=10) as answer:
        answer.read(1)
        return time.perf_counter() - started
