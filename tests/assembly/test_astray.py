"""Log records without a trace id find the span that names the same response, or stay out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collectors.span import LogRecord, Resource
from monitor.assembly.astray import AFTER_NS, adopted
from tests.assembly.building import SECOND, START, chat, log

RESPONSE = {"gen_ai.response.id": "r1"}
OWNER = chat(1, attributes=RESPONSE, at=0, until=2)


def record(at: float = 1, service: str = "desk", attributes: dict[str, Any] = RESPONSE) -> LogRecord:
    """A record without ids, written at second `at`."""
    made = log(None, "gen_ai.client.inference.operation.details", at=at, trace="", attributes=attributes)
    return replace(made, resource=Resource({"service.name": service}))


@pytest.mark.parametrize("at", [0, 2, 2 + AFTER_NS / SECOND])
def test_a_record_gets_the_ids_of_the_span_that_names_its_response(at: float) -> None:
    """While the span runs and right after it, the record is the span's; a second copy of the span changes nothing."""
    found = adopted([record(at)], [OWNER, OWNER])
    assert [(one.trace_id, one.span_id, one.time_unix_nano) for one in found] == [(OWNER.trace_id, OWNER.span_id, START + int(at * SECOND))]  # fmt: skip


@pytest.mark.parametrize(
    "astray",
    [record(-1), record(60), record(service="other"), record(attributes={}), record(attributes={"gen_ai.response.id": "r2"}), record(attributes={"gen_ai.response.id": 7})],
    ids=["before", "long after", "another service", "no response", "another response", "no text"],
)  # fmt: skip
def test_a_record_that_no_span_claims_stays_out(astray: LogRecord) -> None:
    """Nearness in time or the service alone is no evidence."""
    assert adopted([astray], [OWNER]) == []


def test_a_record_that_two_spans_could_claim_stays_out() -> None:
    """Where a cache handed out one response twice at a time, nobody can tell whose the record is."""
    assert adopted([record()], [OWNER, chat(2, attributes=RESPONSE, at=0, until=2)]) == []
