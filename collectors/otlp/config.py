"""Configuration of the OTLP receivers. Sizes are bytes; endpoints `host:port`, port 0 takes a free one."""

from __future__ import annotations

from dataclasses import dataclass

MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""Default limit of one request, before and after decompression: what the OTLP specification recommends."""


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """Server certificate and key (PEM files); with `client_ca_file` clients must show a certificate of that authority."""

    cert_file: str
    key_file: str
    client_ca_file: str | None = None


@dataclass(frozen=True, slots=True)
class ReceiverConfig:
    """One listener. `bearer_token_file` holds accepted tokens, one a line, and is read again when it changes."""

    endpoint: str
    max_request_bytes: int = MAX_REQUEST_BYTES
    tls: TlsConfig | None = None
    bearer_token_file: str | None = None
    max_in_flight_bytes: int = 4 * MAX_REQUEST_BYTES


@dataclass(frozen=True, slots=True)
class OtlpConfig:
    """Both listeners; None turns one off. Loopback by default: opening a port to the network is a decision."""

    grpc: ReceiverConfig | None = ReceiverConfig("localhost:4317")
    http: ReceiverConfig | None = ReceiverConfig("localhost:4318")
