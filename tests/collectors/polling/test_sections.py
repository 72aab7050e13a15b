"""The configuration sections of pollers: what they become, and what is said of what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectors.catalogue import ConfigFault, parse_config
from monitor.settings.document import ConfigurationError
from monitor.settings.load import parse_settings

URL = {"endpoint": "http://tempo:3200/"}


def faults(kind: str, raw: Any) -> list[tuple[tuple[str | int, ...], str]]:
    with pytest.raises(ConfigFault) as raised:
        parse_config(kind, raw)
    return list(raised.value.faults)


def test_every_key_is_read() -> None:
    """Durations, sizes, credentials and TLS, files relative to their folder."""
    raw = {
        **URL, "interval": "1m30s", "overlap": "1h", "lookback": "2d", "catch_up": "12h", "max_results": 50, "max_concurrency": 2,
        "headers": {"X-Scope-OrgID": "a"}, "auth": {"basic": {"username": "u", "password_file": "p"}}, "timeout": "500ms",
        "tls": {"ca_file": "ca.pem", "cert_file": "/c", "key_file": "k", "server_name": "n"}, "requests_per_second": 3,
        "max_response_size": "2MiB", "query": "{ true }",
    }  # fmt: skip
    config = parse_config("tempo", raw, Path("/etc"))
    pace, http = config.pace, config.http
    assert (pace.interval, pace.overlap, pace.lookback, pace.catch_up) == (90, 3600, 172_800, 43_200)
    assert (pace.max_results, pace.max_concurrency) == (50, 2)
    assert (http.endpoint, http.timeout, http.requests_per_second) == ("http://tempo:3200", 0.5, 3)
    assert (http.credentials.username, http.credentials.password_file) == ("u", "/etc/p")
    assert (http.tls.ca_file, http.tls.cert_file, http.tls.key_file, http.tls.server_name) == (
        "/etc/ca.pem",
        "/c",
        "/etc/k",
        "n",
    )
    assert (http.max_response_bytes, config.options) == (2 * 1024**2, {"query": "{ true }"})


@pytest.mark.parametrize(
    ("kind", "raw", "place", "reason"),
    [
        ("tempo", None, ("endpoint",), "is missing"),
        ("tempo", {"endpoint": "tempo:3200"}, ("endpoint",), "is no URL: write http://host:port"),
        ("tempo", {"endpoint": "http://u:p@tempo"}, ("endpoint",), "carries credentials: give them under `auth`"),
        ("tempo", {**URL, "intervall": "1m"}, ("intervall",), "is no key here; did you mean `interval`?"),
        ("tempo", {**URL, "interval": 30}, ("interval",), "is no duration"),
        ("tempo", {**URL, "interval": "10ms"}, (), "`interval` is at least 1s"),
        ("tempo", {**URL, "auth": {}}, ("auth",), "give one of `bearer_token_file`"),
        ("tempo", {**URL, "auth": {"basic": {"username": "u"}}}, ("auth", "basic"), "give `password_file`"),
        ("tempo", {**URL, "auth": {"basic": {"usr": "u"}}}, ("auth", "basic", "usr"), "is no key here; the keys are username"),
        ("tempo", {**URL, "tls": {"cert_file": "c"}}, ("tls",), "`cert_file` and `key_file` go together"),
        ("tempo", {**URL, "max_results": 0}, ("max_results",), "should be greater than or equal to 1"),
        ("tempo", "http://tempo", (), "should be a map"),
        ("jaeger", {**URL, "api": "v2"}, ("api",), "should be 'auto', 'v3' or 'legacy'"),
        ("phoenix", {**URL, "projects": []}, ("projects",), "should have at least 1 entry"),
        ("otlp_file", {}, ("include",), "is missing"),
        ("otlp_file", {"include": ["a"], "start_at": "middle"}, ("start_at",), "should be 'beginning' or 'end'"),
        ("langfuse", {**URL, "max_results": 5000}, ("max_results",), "should be less than or equal to 1000"),
    ],
)  # fmt: skip
def test_a_wrong_section_names_its_place(kind: str, raw: Any, place: tuple[str, ...], reason: str) -> None:
    """Each fault with its key and what would be right."""
    found = faults(kind, raw)
    assert (place, True) in [(where, said.startswith(reason)) for where, said in found], found


def test_secrets_are_never_shown() -> None:
    """Neither by the configuration's text nor by a fault."""
    raw = {**URL, "auth": {"bearer_token": "s3cret"}, "headers": {"X-Key": "s3cret"}}
    assert "s3cret" not in repr(parse_config("tempo", raw))
    assert "s3cret" not in str(faults("tempo", {**raw, "auth": {"bearer_token": ["s3cret"]}}))


@pytest.mark.parametrize(
    "section",
    [
        'auth: {bearer_token: "abc"}',
        'headers: {Authorization: "Bearer abc"}',
        'auth: {basic: {username: u, password: "abc"}}',
    ],
)
def test_a_literal_secret_is_refused(section: str) -> None:
    """It belongs into the environment or a file; names of tenants are no secrets."""
    text = 'collectors:\n  tempo/a:\n    endpoint: "http://t"\n    {}\n'
    with pytest.raises(ConfigurationError, match="literal secret"):
        parse_settings(text.format(section), "r.yaml", {})
    assert parse_settings(text.format("headers: {X-Scope-OrgID: agents}"), "r.yaml", {})
