"""Who sees which page: refusal on open ports, sign-in by token, and what protects a session."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from pathlib import Path

import pytest
from aiohttp import ClientResponse

from monitor.server.access import Access
from monitor.server.pages.sessions import SESSION_SECONDS, TRIES_PER_MINUTE
from monitor.server.pages.site import PAGES
from tests.pages.served import Pages, pages

READS = [page for page in PAGES if page.method == "GET"]
FIGURES = {"/", "/monitors/{name}", "/health"}


def address(path: str) -> str:
    """A page's path with something for its parts."""
    return path.replace("{name}", "m").replace("{id}", "x")


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Pages]:
    """Open to all, with tokens."""
    (tmp_path / "tokens").write_text("first-token\nsecond-token\n")
    async with pages(tmp_path, endpoint="0.0.0.0:0", auth={"bearer_token_file": str(tmp_path / "tokens")}) as found:
        yield found


async def sign_in(served: Pages, token: str, **headers: str) -> ClientResponse:
    """Send the form."""
    csrf = await served.csrf("/sign-in")
    return await served.answer("POST", "/sign-in", {"csrf": csrf, "token": token, "next": "/invocations"}, **headers)


def test_pages_without_content_are_exactly_these() -> None:
    """A page that is added has to be thought about here: all but these show content or change something."""
    assert {page.path for page in PAGES if page.access is Access.FIGURES} == FIGURES
    assert {page.access for page in PAGES if page.method == "POST"} == {Access.CHANGE}


async def test_an_open_port_without_authorisation(tmp_path: Path) -> None:
    """Figures are shown; pages with content answer 403 and name the key, forms are refused, and the monitor's page says why it shows no answers."""
    async with pages(tmp_path, endpoint="0.0.0.0:0") as served:
        for page in READS:
            status, shown = await served.get(address(page.path))
            assert status == (200 if page.path in FIGURES else 403), page.path
            if status == 403:
                assert "server.auth.bearer_token_file" in shown.text
        for page in PAGES:
            if page.method == "POST":
                assert (await served.answer("POST", address(page.path), {"csrf": "x"})).status == 403
        assert "Answers are not served here" in (await served.get("/monitors/m"))[1].text


async def test_every_page_wants_a_token(guarded: Pages) -> None:
    """With tokens every page leads to the sign-in form, which leads back; a wrong token does not, and a bearer header does as well."""
    for page in READS:
        answer = await guarded.answer("GET", address(page.path), Sec_Fetch_Site="none")
        assert (answer.status, answer.headers["Location"].split("?")[0]) == (303, "/sign-in"), page.path
    answer = await guarded.answer("GET", "/invocations?verdict=fail", Sec_Fetch_Site="same-origin")
    assert answer.headers["Location"] == "/sign-in?next=%2Finvocations%3Fverdict%3Dfail"
    assert (await guarded.get("/", Authorization="Bearer second-token"))[0] == 200
    refused = await sign_in(guarded, "wrong")
    assert refused.status == 401
    assert "none of the tokens" in await refused.text()
    assert "Set-Cookie" not in refused.headers
    assert (await sign_in(guarded, "first-token")).headers["Location"] == "/invocations"
    assert (await guarded.get("/invocations"))[0] == 200


async def test_the_cookie(guarded: Pages) -> None:
    """The cookie is for this site only, unseen by scripts, ends by itself, and does not hold the token."""
    cookie = SimpleCookie((await sign_in(guarded, "first-token")).headers["Set-Cookie"])
    (morsel,) = cookie.values()
    assert (morsel["httponly"], morsel["samesite"], morsel["path"]) == (True, "Strict", "/")
    assert morsel["max-age"] == str(int(SESSION_SECONDS))
    assert "token" not in morsel.value and len(morsel.value) >= 40
    assert morsel["secure"] == ""


async def test_under_tls_the_cookie_is_secure(tmp_path: Path) -> None:
    """Behind a proxy that ends TLS at `external_url` the cookie is bound to the host and to TLS."""
    (tmp_path / "tokens").write_text("first-token\n")
    settings = {"auth": {"bearer_token_file": str(tmp_path / "tokens")}, "external_url": "https://rubricd.example/"}
    async with pages(tmp_path, **settings) as served:
        _, form = await served.get("/sign-in", Host="rubricd.example")
        sent = {"csrf": str(form.all("input", name="csrf")[0]["value"]), "token": "first-token"}
        answer = await served.answer("POST", "/sign-in", sent, Host="rubricd.example", Origin="https://rubricd.example")
        (morsel,) = SimpleCookie(answer.headers["Set-Cookie"]).values()
        assert (morsel.key, morsel["secure"], morsel["domain"]) == ("__Host-rubricd", True, "")


async def test_a_session_ends(guarded: Pages, tmp_path: Path) -> None:
    """After its time, when its token is taken out of the file, and at sign-out."""

    async def open_now() -> bool:
        return (await guarded.get("/invocations", Sec_Fetch_Site="same-origin"))[0] == 200

    await sign_in(guarded, "first-token")
    guarded.clock.advance(SESSION_SECONDS + 1)
    assert not await open_now()
    await sign_in(guarded, "first-token")
    assert await open_now()
    replaced = tmp_path / "replaced"
    replaced.write_text("second-token\n")
    replaced.replace(tmp_path / "tokens")
    assert not await open_now()
    await sign_in(guarded, "second-token")
    kept = list(guarded.session.cookie_jar)
    answer = await guarded.answer("POST", "/sign-out", {"csrf": await guarded.csrf()})
    assert (answer.status, answer.headers["Location"]) == (303, "/sign-in")
    for morsel in kept:
        guarded.session.cookie_jar.update_cookies({morsel.key: morsel.value})
    assert not await open_now()


async def test_forms_of_others(guarded: Pages) -> None:
    """A form without our secret, with another session's, from another origin or another site is refused and changes nothing."""
    await sign_in(guarded, "first-token")
    csrf = await guarded.csrf()
    guarded.alarms.append({"id": "a1", "state": "open", "monitor": "m"})
    for form, headers in (
        ({}, {}),
        ({"csrf": "x" * 43}, {}),
        ({"csrf": csrf}, {"Origin": "https://evil.example"}),
        ({"csrf": csrf}, {"Origin": "null"}),
        ({"csrf": csrf}, {"Sec_Fetch_Site": "cross-site"}),
    ):
        assert (await guarded.answer("POST", "/regressions/a1/ack", form, **headers)).status == 403
    assert guarded.acknowledged == []
    own = {"Origin": guarded.url, "Sec_Fetch_Site": "same-origin"}
    assert (await guarded.answer("POST", "/regressions/a1/ack", {"csrf": csrf}, **own)).status == 303
    guarded.session.cookie_jar.clear()
    await sign_in(guarded, "second-token")
    assert (await guarded.answer("POST", "/regressions/a1/ack", {"csrf": csrf})).status == 403


async def test_a_link_from_another_site(guarded: Pages) -> None:
    """Browsers leave our cookie out of links from elsewhere: a page of ours goes on from there, and who is signed in gets where the link led."""
    await sign_in(guarded, "first-token")
    jar = guarded.session.cookie_jar
    kept = list(jar)
    jar.clear()
    answer = await guarded.answer("GET", "/invocations?verdict=fail", Sec_Fetch_Site="cross-site")
    assert (answer.status, "Location" in answer.headers) == (200, False)
    onward = re.search(r'content="0;url=([^"]+)"', await answer.text())
    assert onward is not None
    for morsel in kept:
        jar.update_cookies({morsel.key: morsel.value})
    answer = await guarded.answer("GET", onward.group(1), Sec_Fetch_Site="same-origin")
    assert (answer.status, answer.headers["Location"]) == (303, "/invocations?verdict=fail")


@pytest.mark.parametrize(
    "after", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/a\r\nX: y"]
)
async def test_signing_in_leads_nowhere_else(guarded: Pages, after: str) -> None:
    """What is no path of ours becomes the overview."""
    csrf = await guarded.csrf("/sign-in")
    answer = await guarded.answer("POST", "/sign-in", {"csrf": csrf, "token": "first-token", "next": after})
    assert (answer.status, answer.headers["Location"]) == (303, "/")


async def test_guessing_is_slow(guarded: Pages) -> None:
    """After some wrong tokens within a minute even the right one has to wait."""
    for _ in range(TRIES_PER_MINUTE):
        assert (await sign_in(guarded, "wrong")).status == 401
    assert (await sign_in(guarded, "first-token")).status == 429
    guarded.clock.advance(61)
    assert (await sign_in(guarded, "first-token")).status == 303


async def test_a_page_of_another_name_on_this_machine(served: Pages) -> None:
    """Without authorisation, content is served under this machine's own names only: a page that rebinds its name gets nothing."""
    assert (await served.get("/invocations", Host="evil.example"))[0] == 403
    assert (await served.get("/invocations"))[0] == 200
