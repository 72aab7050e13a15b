"""The small parts of a receiver: endpoints, budgets, tokens."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from collectors.collector import CollectorFailed
from collectors.otlp.endpoint import Endpoint, bind, parse_endpoint
from collectors.otlp.in_flight import InFlight
from collectors.otlp.senders import Recent, Sender, of_grpc, of_socket
from collectors.otlp.tokens import BearerTokens
from collectors.sink import Overloaded

SENDER = Sender("10.0.0.1", "4711")


@pytest.mark.parametrize(
    ("text", "endpoint", "shown"),
    [
        ("localhost:4317", Endpoint("localhost", 4317), "localhost:4317"),
        ("0.0.0.0:0", Endpoint("0.0.0.0", 0), "0.0.0.0:0"),
        (":4318", Endpoint("", 4318), ":4318"),
        ("*:4318", Endpoint("", 4318), ":4318"),
        ("[::1]:4317", Endpoint("::1", 4317), "[::1]:4317"),
    ],
)
def test_endpoints_are_host_and_port(text: str, endpoint: Endpoint, shown: str) -> None:
    """All usual ways to write an endpoint are understood."""
    assert parse_endpoint(text) == endpoint
    assert str(endpoint) == shown


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("localhost", "no port"),
        ("localhost:", "no port"),
        ("localhost:http", "no port"),
        ("localhost:65536", "no port"),
        ("localhost:-1", "no port"),
        ("localhost:²", "no port"),
        ("http://localhost:4318", "without scheme"),
        ("localhost:4318/v1/traces", "without scheme"),
        ("::1:4317", "without brackets"),
    ],
)
def test_what_is_no_endpoint_says_what_would_be_right(text: str, reason: str) -> None:
    """A wrong endpoint names its fault."""
    with pytest.raises(ValueError, match=reason):
        parse_endpoint(text)


def test_a_free_port_is_the_same_on_every_address() -> None:
    """Port 0 takes one free port for all addresses behind a name."""
    sockets = bind(parse_endpoint(":0"), "otlp")
    try:
        assert len({bound.getsockname()[1] for bound in sockets}) == 1
    finally:
        for bound in sockets:
            bound.close()


def test_a_port_in_use_is_named() -> None:
    """A taken port fails with the endpoint and what to do."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            CollectorFailed, match=f"^otlp: http: cannot listen on localhost:{port}: the port is in use"
        ):
            bind(Endpoint("localhost", port), "otlp: http")


def test_an_unknown_host_is_named() -> None:
    """A name that does not resolve fails as such."""
    with pytest.raises(CollectorFailed, match=r"no-such-host\.invalid:4317: the host name is not known"):
        bind(Endpoint("no-such-host.invalid", 4317), "otlp")


def test_an_address_of_another_machine_is_named() -> None:
    """An address that the machine does not have fails as such (TEST-NET-1, RFC 5737)."""
    with pytest.raises(CollectorFailed, match=r"192\.0\.2\.1:0: the machine has no such address"):
        bind(Endpoint("192.0.2.1", 0), "otlp")


def test_a_budget_is_shared_and_given_back() -> None:
    """Requests hold bytes until they are done; what does not fit is Overloaded and holds nothing more."""
    budget = InFlight(100)
    with budget.hold(SENDER) as first:
        first.grow(60)
        with budget.hold(SENDER) as second, pytest.raises(Overloaded, match="100 bytes"):
            second.grow(41)
        assert budget.held == 60
        first.grow(40)
        assert budget.full
    assert (budget.held, budget.full) == (0, False)


def test_the_first_request_always_fits() -> None:
    """A budget below one request's size still lets one request in."""
    with InFlight(10).hold(SENDER) as holding:
        holding.grow(50)


def test_giving_back_twice_gives_back_once() -> None:
    """`release` may be called twice."""
    budget = InFlight(100)
    other, holding = budget.hold(SENDER), budget.hold(SENDER)
    other.grow(10)
    holding.grow(15)
    holding.release()
    holding.release()
    assert budget.held == 10


def test_a_request_that_was_given_up_takes_nothing_more() -> None:
    """Who still unpacks it is stopped, and no byte stays held for ever."""
    budget = InFlight(100)
    holding = budget.hold(SENDER)
    holding.grow(10)
    holding.release()
    with pytest.raises(Overloaded):
        holding.grow(1)
    assert budget.held == 0


def test_who_floods_leaves_room_for_others() -> None:
    """Sixty-four connections of one address fill no more than half of the budget; others, also of that address, still come in."""
    budget = InFlight(1000)
    flood = [budget.hold(Sender("10.0.0.1", str(port))) for port in range(64)]
    for number, holding in enumerate(flood * 3):
        if number < 49:
            holding.grow(10)
        else:
            with pytest.raises(Overloaded, match="share"):
                holding.grow(10)
    assert budget.held == 490
    other = budget.hold(Sender("10.0.0.2", "1"))
    other.grow(400)  # its only request, however large
    budget.hold(Sender("10.0.0.3", "1")).grow(100)
    with pytest.raises(Overloaded):
        budget.hold(Sender("10.0.0.4", "1")).grow(11)
    other.release()
    budget.hold(Sender("10.0.0.2", "2")).grow(200)
    with pytest.raises(Overloaded):
        budget.hold(Sender("10.0.0.2", "2")).grow(100)


def test_connections_of_one_address_share_its_part() -> None:
    """Where all come from one address, behind a proxy, a connection that floods leaves room for another."""
    budget = InFlight(1200)
    flood = Sender("10.0.0.1", "1")
    for _ in range(30):
        budget.hold(flood).grow(10)
    with pytest.raises(Overloaded, match="share"):
        budget.hold(flood).grow(10)
    for _ in range(20):
        budget.hold(Sender("10.0.0.1", "2")).grow(10)


def test_more_than_the_average_is_over_the_share() -> None:
    """Who sent most of what was taken lately is over its share, who sent little is not, nor one that is alone; what is long ago counts no more."""
    recent = Recent()
    recent.note("flood", 10_000_000, 0.0)
    assert not recent.over_share("flood", 0.0)
    recent.note("polite", 1_000, 0.0)
    assert (recent.over_share("flood", 1.0), recent.over_share("polite", 1.0)) == (True, False)
    assert not recent.over_share("newcomer", 1.0)
    recent.note("polite", 1_000, 60.0)
    assert (recent.over_share("flood", 60.0), recent.over_share("polite", 60.0)) == (True, False)
    recent.note("polite", 1_000, 300.0)
    assert not recent.over_share("flood", 300.0)


def test_what_is_known_of_senders_stays_small() -> None:
    """A million addresses take no more memory than a thousand, and who sends most is still known."""
    recent = Recent()
    recent.note("flood", 10**9, 0.0)
    for number in range(3000):
        recent.note(f"10.0.{number // 256}.{number % 256}", 100, 0.0)
    assert len(recent._taken) <= 1025
    assert recent.over_share("flood", 0.0)


def test_senders_are_addresses_and_connections() -> None:
    """Both transports name the same sender alike, over IPv4 and IPv6."""
    assert of_grpc("ipv4:10.0.0.1:4711") == of_socket(("10.0.0.1", 4711)) == SENDER
    assert of_grpc("ipv6:%5B::1%5D:4711") == of_socket(("::1", 4711, 0, 0)) == Sender("::1", "4711")
    assert of_socket(("::ffff:10.0.0.1", 4711, 0, 0)) == of_grpc("ipv6:%5B::ffff:10.0.0.1%5D:4711") == SENDER
    assert of_socket(None) == of_socket("/run/socket") == Sender("unknown", "")


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text("alpha\n\n  beta  \n")
    return file


def rewrite(file: Path, text: str) -> None:
    """Another file in the place of this one, as Kubernetes swaps a mounted secret."""
    new = file.with_name("new")
    new.write_text(text)
    os.replace(new, file)  # noqa: PTH105


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("Bearer alpha", True),
        ("bearer beta", True),
        ("Bearer  beta ", True),
        ("Bearer gamma", False),
        ("Bearer ", False),
        ("Bearer alphabeta", False),
        ("Basic alpha", False),
        ("alpha", False),
        ("Bearer \udcff", False),
        (None, False),
    ],
)
def test_only_a_token_of_the_file_is_accepted(token_file: Path, header: str | None, accepted: bool) -> None:
    """The scheme is Bearer in any case, the token exactly one of the file's lines."""
    assert BearerTokens(str(token_file)).accept(header) is accepted


def test_a_changed_file_is_read_again(token_file: Path) -> None:
    """New tokens count at once and old ones no more."""
    tokens = BearerTokens(str(token_file))
    rewrite(token_file, "gamma\n")
    assert (tokens.accept("Bearer gamma"), tokens.accept("Bearer alpha")) == (True, False)


@pytest.mark.parametrize("text", ["", "\n \n", None])
def test_a_file_that_goes_bad_changes_nothing(token_file: Path, text: str | None) -> None:
    """An empty or missing file leaves the last tokens in force and is a problem until it is right again."""
    tokens = BearerTokens(str(token_file))
    token_file.unlink() if text is None else rewrite(token_file, text)
    assert tokens.accept("Bearer alpha")
    assert tokens.problem is not None
    assert str(token_file) in tokens.problem
    rewrite(token_file, "gamma")
    assert tokens.accept("Bearer gamma")
    assert tokens.problem is None


def test_a_file_that_is_bad_at_the_start_is_refused(tmp_path: Path) -> None:
    """Without a token nobody could ever come in: that is an error, not a setting."""
    with pytest.raises(OSError, match="missing"):
        BearerTokens(str(tmp_path / "missing"))
    (tmp_path / "empty").write_text(" \n")
    with pytest.raises(ValueError, match="holds no token"):
        BearerTokens(str(tmp_path / "empty"))
