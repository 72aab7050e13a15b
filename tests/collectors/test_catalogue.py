from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from collectors.catalogue import ConfigFault, build_collector, parse_config, type_of
from collectors.otlp.config import MAX_REQUEST_BYTES, OtlpConfig, ReceiverConfig, TlsConfig
from tests.collectors.otlp.recording import RecordingMeter, RecordingSink


def faults(raw: Any, kind: str = "otlp") -> list[tuple[tuple[str | int, ...], str]]:
    with pytest.raises(ConfigFault) as raised:
        parse_config(kind, raw)
    return list(raised.value.faults)


@pytest.mark.parametrize("raw", [None, {}, {"protocols": None}])
def test_nothing_given_is_both_listeners_on_localhost(raw: Any) -> None:
    """The default opens both protocols on loopback, 64 MiB a request."""
    config = parse_config("otlp", raw)
    assert config == OtlpConfig(ReceiverConfig("localhost:4317"), ReceiverConfig("localhost:4318"))
    assert config.http is not None
    assert config.http.max_request_bytes == 64 * 1024 * 1024 == MAX_REQUEST_BYTES


def test_only_listed_protocols_are_opened() -> None:
    """A protocol that `protocols` does not list stays closed; one with nothing behind it has its defaults."""
    assert parse_config("otlp", {"protocols": {"grpc": None}}) == OtlpConfig(ReceiverConfig("localhost:4317"), None)
    assert parse_config("otlp", {"protocols": {"http": {}}}) == OtlpConfig(None, ReceiverConfig("localhost:4318"))


def test_every_key_is_read() -> None:
    """Endpoint, TLS, tokens and size reach the receiver's configuration, files relative to their folder."""
    tls = {"cert_file": "c.pem", "key_file": "/k.pem", "client_ca_file": "ca.pem"}
    raw = {
        "protocols": {
            "http": {
                "endpoint": "0.0.0.0:4318",
                "tls": tls,
                "auth": {"bearer_token_file": "t"},
                "max_request_size": "2MiB",
            }
        }
    }
    expected = ReceiverConfig(
        "0.0.0.0:4318", 2 * 1024**2, TlsConfig("/etc/c.pem", "/k.pem", "/etc/ca.pem"), "/etc/t", 8 * 1024**2
    )
    assert parse_config("otlp", raw, Path("/etc")).http == expected


@pytest.mark.parametrize(
    ("size", "bytes_"),
    [("1KiB", 1024), ("1.5MiB", 1572864), ("20MB", 20_000_000), ("4096B", 4096), (" 64 MiB ", 1 << 26)],
)
def test_sizes_have_units(size: str, bytes_: int) -> None:
    """Sizes are written with a unit."""
    config = parse_config("otlp", {"protocols": {"http": {"max_request_size": size}}}).http
    assert config is not None
    assert config.max_request_bytes == bytes_


@pytest.mark.parametrize(
    ("raw", "place", "reason"),
    [
        ({"protocol": {}}, ("protocol",), "is no key here; did you mean `protocols`?"),
        ({"protocols": {"gprc": {}}}, ("protocols", "gprc"), "is no key here; did you mean `grpc`?"),
        ({"protocols": {"kafka": {}}}, ("protocols", "kafka"), "is no key here; the keys are grpc, http"),
        ({"protocols": {"http": {"endpont": "x:1"}}}, ("protocols", "http", "endpont"), "is no key here; did you mean `endpoint`?"),
        ({"protocols": {"http": {"tls": {"cert_file": "x", "key_file": "y", "client_ca": "z"}}}}, ("protocols", "http", "tls", "client_ca"),
         "is no key here; did you mean `client_ca_file`?"),
        ({"protocols": {"http": {"tls": {"cert_file": "x"}}}}, ("protocols", "http", "tls", "key_file"), "is missing"),
        ({"protocols": {"http": {"auth": {}}}}, ("protocols", "http", "auth", "bearer_token_file"), "is missing"),
        ({"protocols": {"http": {"endpoint": "localhost"}}}, ("protocols", "http", "endpoint"), "has no port from 0 to 65535: write"),
        ({"protocols": {"http": {"endpoint": 4318}}}, ("protocols", "http", "endpoint"), "should be a text"),
        ({"protocols": {"http": "localhost:4318"}}, ("protocols", "http"), "should be a map"),
        ({"protocols": ["grpc"]}, ("protocols",), "should be a map"),
        ("grpc", (), "should be a map"),
        ({"protocols": {"http": {"max_request_size": 64}}}, ("protocols", "http", "max_request_size"), "is no size: write it with a unit"),
        ({"protocols": {"http": {"max_request_size": "64MX"}}}, ("protocols", "http", "max_request_size"), "is no size"),
        ({"protocols": {"http": {"max_request_size": "3GiB"}}}, ("protocols", "http", "max_request_size"), "should be from 1KiB to 1GiB"),
        ({"protocols": {}}, ("protocols",), "names no protocol"),
        ({"protocols": {"grpc": {"endpoint": "a:1"}, "http": {"endpoint": "a:1"}}}, ("protocols", "http", "endpoint"), "is the endpoint of grpc"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_names_its_place_and_what_would_be_right(
    raw: Any, place: tuple[str, ...], reason: str
) -> None:
    """Each fault has the path of its key and a reason."""
    ((found, said),) = faults(raw)
    assert found == place
    assert said.startswith(reason)


def test_all_faults_are_told_together() -> None:
    """Not only the first fault is found."""
    assert len(faults({"protocols": {"grpc": {"endpoint": "x"}, "http": {"max_request_size": 1, "tsl": {}}}})) == 3


def test_unknown_types_are_named() -> None:
    """An unknown type comes with the nearest known, a promised one with the promise."""
    assert faults(None, "oltp") == [((), "`oltp` is no type of collector; did you mean `otlp`?")]
    assert faults(None, "zipkin") == [
        (
            (),
            "`zipkin` is no type of collector; the types are `otlp`, `tempo`, `jaeger`, `otlp_file`, `phoenix`, `langfuse`",
        )
    ]
    assert "later version" in faults(None, "kafka")[0][1]


def test_the_type_is_what_stands_before_the_slash() -> None:
    """Several collectors of one type are told apart by a name."""
    assert (type_of("otlp"), type_of("tempo/prod")) == ("otlp", "tempo")


@pytest.mark.parametrize("config", [None, {"protocols": {"http": None}}, OtlpConfig()])
def test_a_collector_is_built_from_raw_or_parsed_configuration(config: Any) -> None:
    """The label of a collector is its whole name; nothing is opened before the start."""
    collector = build_collector("otlp/edge", config, RecordingSink(), RecordingMeter())
    assert (collector.name, collector.endpoints, collector.problem) == ("otlp/edge", (), None)


def test_the_catalogue_does_not_load_servers() -> None:
    """Reading a configuration pulls in neither grpc nor aiohttp nor protobuf: commands start quickly."""
    code = "import sys, collectors.catalogue as c; c.parse_config('otlp', None); print([m for m in ('grpc','aiohttp','google.protobuf') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.strip() == "[]"
