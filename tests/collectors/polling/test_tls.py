"""TLS towards a source: its authority, and our certificate."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from collectors.polling.config import ClientTls, HttpConfig
from collectors.polling.faults import SourceFault
from collectors.polling.http import HttpSource
from monitor.clock import ManualClock
from tests.collectors.otlp.certificates import Authority
from tests.contracts.poller_contract import moving
from tests.support.trace_servers import FakeTempo, serve
from tests.support.trace_world import TraceWorld


@pytest.fixture
def authority(tmp_path: Path, required_program: Callable[[str, str], str]) -> Authority:
    return Authority(required_program("openssl", "apt install openssl"), tmp_path / "ca")


@asynccontextmanager
async def asking(authority: Authority, tls: ClientTls, *, client: bool = False) -> AsyncIterator[HttpSource]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    pair = authority.issue("server")
    context.load_cert_chain(pair.cert, pair.key)
    if client:
        context.load_verify_locations(authority.file)
        context.verify_mode = ssl.CERT_REQUIRED
    clock = ManualClock()
    runner, url = await serve(FakeTempo(TraceWorld(clock, 1, 1, 1)), ssl_context=context)
    source = HttpSource(HttpConfig(url, tls=tls), clock, lambda: 0.5)
    await source.open()
    try:
        yield source
    finally:
        await source.close()
        await runner.cleanup()
        await asyncio.sleep(0)


async def test_a_server_of_our_own_authority_is_trusted(authority: Authority) -> None:
    """With `ca_file`, and by the name in the certificate."""
    async with asking(authority, ClientTls(ca_file=authority.file)) as source:
        assert (await moving(ManualClock(), source.get("/api/v2/traces/x"))).status == 404


async def test_any_other_server_is_not(authority: Authority) -> None:
    """The message asks for ca_file; there is no way to turn checking off."""
    async with asking(authority, ClientTls()) as source:
        with pytest.raises(SourceFault, match="certificate was not accepted"):
            await moving(source._clock, source.get("/x"))


async def test_our_certificate_is_shown_where_it_is_wanted(authority: Authority) -> None:
    """A server that wants client certificates gets it."""
    pair = authority.issue("rubricd")
    tls = ClientTls(ca_file=authority.file, cert_file=pair.cert, key_file=pair.key)
    async with asking(authority, tls, client=True) as source:
        assert (await moving(ManualClock(), source.get("/api/v2/traces/x"))).status == 404
