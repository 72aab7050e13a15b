from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from collectors.collector import CollectorFailed
from collectors.otlp.config import ReceiverConfig, TlsConfig
from collectors.otlp.grpc import TRACE_SERVICE, GrpcReceiver
from collectors.otlp.http import HttpReceiver
from tests.collectors.otlp.build import span, traces
from tests.collectors.otlp.certificates import Authority, Pair
from tests.collectors.otlp.recording import RecordingMeter, RecordingSink

Receiver = HttpReceiver | GrpcReceiver
BODY = traces(span())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory, required_program: Callable[[str, str], str]) -> Authority:
    return Authority(required_program("openssl", "apt install openssl"), tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Awaitable[Receiver]]]:
    started: list[Receiver] = []

    async def start(kind: type[Any], tls: TlsConfig) -> Receiver:
        receiver: Receiver = kind("otlp", ReceiverConfig("127.0.0.1:0", tls=tls), RecordingSink(), RecordingMeter())
        await receiver.start()
        started.append(receiver)
        return receiver

    yield start
    for receiver in started:
        await receiver.stop()


Start = Callable[..., Awaitable[Receiver]]


async def http_status(receiver: Receiver, authority: Authority, client: Pair | None = None) -> int:
    """Post over TLS on a connection of its own; raises aiohttp.ClientError when there is no connection."""
    context = ssl.create_default_context(cafile=authority.file)
    if client is not None:
        context.load_cert_chain(client.cert, client.key)
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            receiver.endpoints[0] + "/v1/traces",
            data=BODY,
            ssl=context,
            headers={"Content-Type": "application/x-protobuf"},
        ) as response,
    ):
        return response.status


async def grpc_answer(receiver: Receiver, authority: Authority, client: Pair | None = None) -> bytes:
    """Call over TLS on a channel of its own; raises grpc.RpcError when there is no connection."""
    own = [Path(name).read_bytes() for name in (client.key, client.cert)] if client is not None else [None, None]
    credentials = grpc.ssl_channel_credentials(Path(authority.file).read_bytes(), *own)
    with grpc.secure_channel(receiver.endpoints[0].removeprefix("grpcs://"), credentials) as channel:
        call = channel.unary_unary(f"/{TRACE_SERVICE}/Export")
        return bytes(await asyncio.to_thread(call, BODY, timeout=5))


async def test_http_over_tls(start: Start, authority: Authority) -> None:
    """With a certificate the endpoint is https, and no plain HTTP is served."""
    server = authority.issue("http")
    receiver = await start(HttpReceiver, TlsConfig(server.cert, server.key))
    assert receiver.endpoints[0].startswith("https://127.0.0.1:")
    assert await http_status(receiver, authority) == 200
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.post(receiver.endpoints[0].replace("https", "http") + "/v1/traces", data=BODY)


async def test_http_asks_for_a_client_certificate(start: Start, authority: Authority, tmp_path: Path) -> None:
    """With a client authority only its clients come in."""
    server, client = authority.issue("http-mutual"), authority.issue("client")
    receiver = await start(HttpReceiver, TlsConfig(server.cert, server.key, authority.file))
    assert await http_status(receiver, authority, client) == 200
    with pytest.raises(aiohttp.ClientError):
        await http_status(receiver, authority)


async def test_grpc_over_tls(start: Start, authority: Authority) -> None:
    """With a certificate the endpoint is grpcs."""
    server = authority.issue("grpc")
    receiver = await start(GrpcReceiver, TlsConfig(server.cert, server.key))
    assert receiver.endpoints[0].startswith("grpcs://127.0.0.1:")
    assert await grpc_answer(receiver, authority) == b""


async def test_grpc_asks_for_a_client_certificate(start: Start, authority: Authority) -> None:
    """With a client authority only its clients come in."""
    server, client = authority.issue("grpc-mutual"), authority.issue("grpc-client")
    receiver = await start(GrpcReceiver, TlsConfig(server.cert, server.key, authority.file))
    assert await grpc_answer(receiver, authority, client) == b""
    with pytest.raises(grpc.RpcError):
        await grpc_answer(receiver, authority)


@pytest.mark.parametrize("kind", [HttpReceiver, GrpcReceiver])
async def test_a_renewed_certificate_is_used_for_new_connections(
    start: Start, authority: Authority, kind: type[Any], tmp_path: Path
) -> None:
    """Certificates are renewed on disk while we run; one that cannot be used leaves the old one in force."""
    server = Pair(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))

    def install(pair: Pair | None) -> None:
        for source, target in ((pair and pair.cert, server.cert), (pair and pair.key, server.key)):
            new = Path(target).with_suffix(".new")
            new.write_bytes(Path(source).read_bytes() if source else b"rubbish")
            new.replace(target)

    install(authority.issue(f"first-{kind.__name__}"))
    receiver = await start(kind, TlsConfig(server.cert, server.key))
    port = int(receiver.endpoints[0].rpartition(":")[2])

    async def subject() -> str:
        return await asyncio.to_thread(common_name, port, authority)

    assert await subject() == f"first-{kind.__name__}"
    install(authority.issue(f"second-{kind.__name__}"))
    assert await subject() == f"second-{kind.__name__}"
    install(None)
    assert await subject() == f"second-{kind.__name__}"


def common_name(port: int, authority: Authority) -> str:
    """The CN of the certificate that a server shows."""
    context = ssl.create_default_context(cafile=authority.file)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection(("127.0.0.1", port), 5) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        certificate: Any = secure.getpeercert()
    return str(dict(entry[0] for entry in certificate["subject"])["commonName"])


@pytest.mark.parametrize("kind", [HttpReceiver, GrpcReceiver])
@pytest.mark.parametrize("broken", ["missing", "rubbish", "mismatch"])
async def test_a_wrong_certificate_fails_the_start(
    start: Start, authority: Authority, kind: type[Any], broken: str, tmp_path: Path
) -> None:
    """A file that is missing or wrong is named before anything listens."""
    good, other = authority.issue(f"good-{kind.__name__}"), authority.issue(f"other-{kind.__name__}")
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("rubbish")
    cert = {"missing": str(tmp_path / "missing.pem"), "rubbish": str(rubbish), "mismatch": other.cert}[broken]
    with pytest.raises(CollectorFailed) as raised:
        await start(kind, TlsConfig(cert, good.key))
    assert str(raised.value).startswith(f"otlp: {'http' if kind is HttpReceiver else 'grpc'}: tls: {cert}")
