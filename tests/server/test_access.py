"""Who may see and do what, by where the server listens and what is configured."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import ClientError

from monitor.clock import ManualClock
from monitor.server.access import Access
from monitor.server.endpoints import ENDPOINTS, Endpoint
from monitor.server.listener import ApiServer, ServerFailed
from monitor.store.sqlite import SqliteStore
from tests.collectors.otlp.certificates import Authority, Pair
from tests.server.serving import NOW, Program, Served, context_of, serving

TRACE = "0" * 32
CONTENT = [endpoint for endpoint in ENDPOINTS if endpoint.access in (Access.CONTENT, Access.CHANGE)]
FIGURES = [endpoint for endpoint in ENDPOINTS if endpoint not in CONTENT]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory, required_program: Callable[[str, str], str]) -> Authority:
    return Authority(required_program("openssl", "apt-get install openssl"), tmp_path_factory.mktemp("tls") / "ca")


def _client(authority: Authority, pair: Pair | None = None) -> ssl.SSLContext:
    """A client that trusts the authority, with a certificate of its own or without."""
    context = ssl.create_default_context(cafile=authority.file)
    if pair is not None:
        context.load_cert_chain(pair.cert, pair.key)
    return context


async def _status(served: Served, endpoint: Endpoint, **headers: str) -> int:
    path = endpoint.path.replace("{id}", "x").replace("{trace_id}", TRACE)
    query = {"trace_id": TRACE} if endpoint.name in ("decisions", "forget") else {}
    async with served.session.request(endpoint.method, served.url + path, params=query, headers=headers) as answer:
        assert "Access-Control-Allow-Origin" not in answer.headers
        return answer.status


def test_every_path_that_shows_content_is_marked() -> None:
    """Content and changes are exactly these paths; a new one has to be thought about here."""
    assert {endpoint.name for endpoint in CONTENT} == {
        "reload", "invocations", "invocation", "revisions", "forget", "verdicts", "trace", "decisions", "evaluations",
        "acknowledge", "labels", "label_draws", "label_report", "backfills", "cancel_backfill",
    }  # fmt: skip


async def test_open_to_others_without_authorisation(tmp_path: Path) -> None:
    """Open to other machines and without authorisation: figures and health are served, content and changes answer 403 and name the key."""
    async with serving(tmp_path, endpoint="0.0.0.0:0") as served:
        for endpoint in FIGURES:
            assert await _status(served, endpoint) == 200, endpoint
        for endpoint in CONTENT:
            assert await _status(served, endpoint) == 403, endpoint
        status, found = await served.get("/api/v1/verdicts")
        assert (status, found["key"]) == (403, "server.auth.bearer_token_file")
        assert "server.auth.bearer_token_file" in found["detail"]
        assert "server.tls.client_ca_file" in found["detail"]
        assert await served.send("POST", "/-/reload") == (403, (await served.send("POST", "/-/reload"))[1])


async def test_this_machine_alone(served: Served) -> None:
    """On loopback nothing is refused for want of authorisation."""
    for endpoint in ENDPOINTS:
        assert await _status(served, endpoint) in ((501,) if endpoint.later else (200, 400, 404)), endpoint


async def test_tokens(tmp_path: Path) -> None:
    """With a token file the API wants one of its tokens, wherever it listens; health and metrics do not. The file is read again when it changes.
    One that goes bad is a problem in the body of /readyz, and the tokens stay in force.
    """
    tokens = tmp_path / "tokens"
    tokens.write_text("first\nsecond\n")
    async with serving(tmp_path, endpoint="0.0.0.0:0", auth={"bearer_token_file": str(tokens)}) as served:
        for endpoint in ENDPOINTS:
            opened = endpoint.access is Access.OPEN
            assert await _status(served, endpoint) == (200 if opened else 401), endpoint
            assert await _status(served, endpoint, Authorization="Bearer wrong") == (200 if opened else 401)
            assert await _status(served, endpoint, Authorization="Bearer second") not in (401, 403)
        async with served.session.get(f"{served.url}/api/v1/verdicts") as answer:
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        replaced = tmp_path / "replaced"
        replaced.write_text("third\n")
        replaced.replace(tokens)
        assert (await served.send("GET", "/api/v1/verdicts", None, Authorization="Bearer second"))[0] == 401
        assert (await served.send("GET", "/api/v1/verdicts", None, Authorization="Bearer third"))[0] == 200
        for spoil in (lambda: replaced.replace(tokens), tokens.unlink):
            replaced.write_text("")
            spoil()
            (found,) = (await served.get("/readyz"))[1]["problems"]
            assert (found["kind"], found["name"]) == ("server", "server.endpoint")
            assert str(tokens) in found["problem"] and "stay in force" in found["problem"]
            assert (await served.send("GET", "/api/v1/verdicts", None, Authorization="Bearer third"))[0] == 200
        tokens.write_text("third\n")
        assert (await served.get("/readyz"))[1]["problems"] == []


async def test_other_names_for_this_machine(tmp_path: Path) -> None:
    """A page that reaches loopback by a name of its own, or from another origin, is refused content, unless external_url says that name."""
    async with serving(tmp_path, external_url="https://rubricd.example/") as served:
        for host in ("localhost:8464", "127.0.0.1", "[::1]:8464", "rubricd.example"):
            assert (await served.send("GET", "/api/v1/verdicts", None, Host=host))[0] == 200, host
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "["):
            assert (await served.send("GET", "/api/v1/verdicts", None, Host=host))[0] == 403, host
        status, found = await served.send("POST", "/-/reload", None, Origin="https://evil.example")
        assert (status, found["key"]) == (403, "server.external_url")
        assert (await served.send("POST", "/-/reload", None, Origin="null"))[0] == 403
        assert (await served.send("POST", "/-/reload", None, Origin="http://localhost:8464"))[0] == 200
        async with served.session.get(f"{served.url}/metrics", headers={"Host": "evil.example"}) as answer:
            assert answer.status == 200


async def test_tls_with_client_certificates(tmp_path: Path, authority: Authority) -> None:
    """With a client CA only clients of that authority are served, and then wholly, wherever the server listens."""
    server, client = authority.issue("server"), authority.issue("client")
    tls = {"cert_file": server.cert, "key_file": server.key, "client_ca_file": authority.file}
    async with serving(tmp_path, _client(authority, client), endpoint="0.0.0.0:0", tls=tls) as served:
        assert served.url.startswith("https://")
        assert (await served.get("/api/v1/verdicts"))[0] == 200
        assert (await served.send("POST", "/-/reload"))[0] == 200
        with pytest.raises(ClientError):
            await served.session.get(f"{served.url}/healthz", ssl=_client(authority))


async def test_tls_alone_is_no_authorisation(tmp_path: Path, authority: Authority) -> None:
    """TLS without a client CA hides content on the way only: other machines still do not get it."""
    server = authority.issue("plain")
    tls = {"cert_file": server.cert, "key_file": server.key}
    async with serving(tmp_path, _client(authority), endpoint="0.0.0.0:0", tls=tls) as served:
        assert (await served.get("/healthz"))[0] == 200
        assert (await served.get("/api/v1/verdicts"))[0] == 403


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"endpoint": "localhost"}, "server.endpoint: 'localhost' has no port"),
        ({"auth": {"bearer_token_file": "/nowhere/tokens"}}, "server.auth.bearer_token_file: /nowhere/tokens: No such"),
        ({"tls": {"cert_file": "/nowhere/cert", "key_file": "/nowhere/key"}}, "server: tls: /nowhere/cert"),
    ],
)
async def test_what_keeps_it_from_starting(tmp_path: Path, settings: dict[str, object], message: str) -> None:
    """A server that cannot start names the key or file, and leaves nothing behind."""
    store = SqliteStore(tmp_path)
    server = ApiServer(context_of(store, Program(), ManualClock(NOW), **settings))
    with pytest.raises(ServerFailed) as failed:
        await server.start()
    assert message in str(failed.value)
    await server.stop()
    store.close()


async def test_a_port_in_use(tmp_path: Path) -> None:
    """A port in use is named; after a stop the port is free again."""
    store = SqliteStore(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ServerFailed, match=f"cannot listen on {endpoint}: the port is in use"):
            await ApiServer(context_of(store, Program(), ManualClock(NOW), endpoint=endpoint)).start()
    server = ApiServer(context_of(store, Program(), ManualClock(NOW), endpoint=endpoint))
    await server.start()
    await server.stop()
    await server.stop()
    again = ApiServer(context_of(store, Program(), ManualClock(NOW), endpoint=endpoint))
    await again.start()
    await again.stop()
    store.close()
