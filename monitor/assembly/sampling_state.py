"""The probability with which upstream kept a trace, from OpenTelemetry's TraceState (`ot=th:…`)."""

from __future__ import annotations

_DIGITS = 14


def upstream_probability(trace_state: str) -> float:
    """1 - T / 2^56 for a rejection threshold T of up to 14 hex digits, padded with zeros on the right; 1.0 without one.

    Source: OpenTelemetry specification, TraceState handling, "Rejection threshold (th)".
    """
    for member in trace_state.split(","):
        vendor, _, entries = member.strip().partition("=")
        if vendor.strip() != "ot":
            continue
        for entry in entries.split(";"):
            key, _, threshold = entry.strip().partition(":")
            if key == "th" and 0 < len(threshold) <= _DIGITS and all(c in "0123456789abcdef" for c in threshold):
                return 1.0 - int(threshold.ljust(_DIGITS, "0"), 16) / 2**56
    return 1.0
