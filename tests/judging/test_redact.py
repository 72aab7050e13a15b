"""Redaction: what is found, what is left alone, and one pseudonym for one value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.judging.recognisers import ORDER, RECOGNISERS, iban, luhn
from monitor.judging.redact import Redactor, redacted
from monitor.model.invocation import Message
from monitor.settings.privacy import (
    NOTHING,
    USUAL,
    MonitorRedact,
    Presidio,
    Redact,
    Redaction,
    before_judge,
    before_store,
)
from tests.support.judging import call, invocation

KEY = "sk-" + "proj" + "A1b2" * 8

FOUND = [
    ("email", "write to anna.berg+x@mail.example.co.uk!", "write to <EMAIL_1>!"),
    ("email", "<Ünal@exämple.de>", "<<EMAIL_1>>"),
    ("card", "card 4111 1111 1111 1111, exp", "card <CARD_1>, exp"),
    ("card", "5500-0000-0000-0004", "<CARD_1>"),
    ("card", "378282246310005", "<CARD_1>"),
    ("iban", "IBAN DE89 3704 0044 0532 0130 00.", "IBAN <IBAN_1>."),
    ("iban", "gb82WEST12345698765432", "<IBAN_1>"),
    ("ip", "from 203.0.113.7:443", "from <IP_1>:443"),
    ("ip", "2001:db8::ff00:42:8329", "<IP_1>"),
    ("phone", "call +49 30 901820 now", "call <PHONE_1> now"),
    ("phone", "(030) 901 820 55", "<PHONE_1>"),
    ("phone", "+1 (415) 555-2671", "<PHONE_1>"),
    ("phone", "tel 0401234567", "tel <PHONE_1>"),
    ("phone", "415-555-2671", "<PHONE_1>"),
    ("secret", f"use {KEY} please", "use <SECRET_1> please"),
    ("secret", "Authorization: Bearer abcdefghijklmnop123", "Authorization: Bearer <SECRET_1>"),
    ("secret", "password=hunter2hunter2;", "password=<SECRET_1>;"),
    ("secret", '"api_key": "zzzzzzzz"', '"api_key": "<SECRET_1>"'),
    ("secret", "AKIA" + "IOSFODNN7EXAMPLE", "<SECRET_1>"),
    ("secret", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U", "<SECRET_1>"),
    ("secret", "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----", "<SECRET_1>"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "expected"), FOUND)
def test_what_is_found(kind: str, text: str, expected: str) -> None:
    """Each recogniser replaces its own kind, and with all of them on it is still named so."""
    assert Redactor((kind,)).text(text) == expected
    assert Redactor(ORDER).text(text) == expected


LEFT_ALONE = [
    "on 2026-11-18 at 19:30",
    "18.11.2026 or 11/18/2026",
    "2026-11-18T09:00:00.250000Z",
    "order 4111 1111 1111 1112",  # wrong check digit
    "DE89 3704 0044 0532 0130 02",  # wrong remainder
    "version 1.2.3.4.5 of 10.15.7",
    "127.0.0.1 and ::1",
    "12,500.00 EUR for 8 people, 19:00-21:30",
    "id 550e8400-e29b-41d4-a716-446655440000",
    "trace a4370deed88f659834bd34759ba35bc5",
    "N-1041, room 0815, party of 14",
    "1796045912884689516",
    "a@b",
    "@anna said hi",
    "the secret of the password is patience",
    "99.999 percent of 1000000",
    "lat 52.520008, lon 13.404954",
    "call_c3ac1d49c20f5fde3d83fd1b",
    "http://localhost:4318/v1/traces",
    "2:30 pm :: 4:15 pm",
]


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_what_is_left_alone(text: str) -> None:
    """Dates, times, amounts, versions, ids and numbers with a wrong checksum stay."""
    assert Redactor(ORDER).text(text) == text


@pytest.mark.parametrize("text", ["4111111111111111", "5555555555554444", "30569309025904", "6011111111111117"])
def test_luhn(text: str) -> None:
    """Published test numbers are right, and with any one digit changed they are not."""
    assert luhn(text)
    for index in range(len(text)):
        changed = text[:index] + str((int(text[index]) + 1) % 10) + text[index + 1 :]
        assert not luhn(changed)


@pytest.mark.parametrize(
    "text", ["DE89370400440532013000", "GB82WEST12345698765432", "FR1420041010050500013M02606", "NO9386011117947"]
)
def test_iban(text: str) -> None:
    """Published examples are right, and with two digits exchanged they are not."""
    assert iban(text)
    assert not iban(text[:5] + text[6] + text[5] + text[7:]) or text[5] == text[6]


def test_one_value_has_one_pseudonym_in_an_invocation() -> None:
    """The same address in request, arguments, result, history and answer is the same pseudonym; another one is another."""
    item = invocation(
        call("mail", {"to": "anna@example.org", "cc": ["bo@example.org"]}, {"bo@example.org": "sent"}, error="anna@example.org bounced"),
        user_input="I am ANNA@example.org",
        final_response="Sent to anna@example.org.",
        system_instructions="Ask help@example.org.",
        history=(Message("user", ({"type": "text", "content": "bo@example.org"},)),),
        attributes={"user.mail": "anna@example.org"},
    )  # fmt: skip
    hidden = redacted(item, USUAL)
    assert hidden.system_instructions == "Ask <EMAIL_1>."
    assert hidden.history[0].parts[0] == {"type": "text", "content": "<EMAIL_2>"}
    assert hidden.user_input == "I am <EMAIL_3>"
    assert hidden.tool_calls[0].arguments == {"to": "<EMAIL_3>", "cc": ["<EMAIL_2>"]}
    assert hidden.tool_calls[0].result == {"<EMAIL_2>": "sent"}
    assert hidden.tool_calls[0].error == "<EMAIL_3> bounced"
    assert hidden.final_response == "Sent to <EMAIL_3>."
    assert hidden.attributes == {"user.mail": "<EMAIL_3>"}
    assert (hidden.id, hidden.agent_name, hidden.tool_calls[0].name) == (item.id, item.agent_name, "mail")


def test_secret_keys_of_objects() -> None:
    """What stands under a key such as `password` is a secret whatever it looks like; numbers and truth values stay."""
    value = Redactor(("secret",)).value(
        {"password": "x y", "Authorization": "abc", "n": 5, "ok": True, "none": None, "token_count": "7"}
    )
    assert value == {
        "password": "<SECRET_1>",
        "Authorization": "<SECRET_2>",
        "n": 5,
        "ok": True,
        "none": None,
        "token_count": "7",
    }


def test_nothing_to_redact_is_the_same_object() -> None:
    """Without kinds the invocation is passed on as it is."""
    item = invocation()
    assert redacted(item, NOTHING) is item


def test_every_kind_of_the_settings_has_a_recogniser() -> None:
    """What `privacy.redact.kinds` may name is what we recognise."""
    assert set(Redact().kinds) == set(RECOGNISERS) == set(ORDER)


def test_long_text_is_searched_in_a_moment() -> None:
    """Text made of what the patterns look for takes time that grows with its length only."""
    import time

    started = time.process_time()
    for piece in ("1 ", "a.", "a@", "1-", ":", "AB12 ", "x" * 50, "+1 ", "eyJ", "password= "):
        Redactor(ORDER).text(piece * (60_000 // len(piece)))
    assert time.process_time() - started < 5


@pytest.mark.parametrize("recogniser", [one for found in RECOGNISERS.values() for one in found])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_quick_look_misses_nothing(recogniser: Any, data: st.DataObject) -> None:
    """Whatever a pattern finds has one of the words that are looked for before it is tried."""
    text = data.draw(st.from_regex(recogniser.pattern))
    if recogniser.pattern.search(text):
        found = any(word in text.casefold() for word in recogniser.needs)
        assert found or (not recogniser.needs and recogniser.needs_digit and any(char.isdecimal() for char in text))


EMAIL_ONLY = Redaction(("email",))


@pytest.mark.parametrize(
    ("everywhere", "own", "expected"),
    [
        ({}, None, USUAL),
        ({"kinds": ["email"]}, None, EMAIL_ONLY),
        ({"before": ["store"]}, None, NOTHING),
        ({}, {"kinds": ["email"]}, EMAIL_ONLY),
        ({}, {"before": []}, NOTHING),
        ({"before": [], "kinds": ["email"]}, {"before": ["judge"]}, EMAIL_ONLY),
        ({"kinds": ["email"], "presidio": {"entities": ["US_SSN"]}}, {}, Redaction(("email",), (Presidio(entities=("US_SSN",)),))),
        ({"kinds": ["email"], "presidio": {"entities": ["US_SSN"]}}, {"presidio": None}, EMAIL_ONLY),
        ({"kinds": []}, {"presidio": {"entities": ["UK_NINO"]}}, Redaction((), (Presidio(entities=("UK_NINO",)),))),
    ],
)  # fmt: skip
def test_a_monitor_has_its_own_policy(everywhere: Any, own: Any, expected: Redaction) -> None:
    """What a monitor's section leaves out is as `privacy.redact` says; what it gives, an empty list and a null too, is its own."""
    monitor = None if own is None else MonitorRedact.model_validate(own)
    assert before_judge(Redact.model_validate(everywhere), monitor) == expected


def test_policies_join_and_are_kept() -> None:
    """Joined policies replace what either does, in no order; a policy comes back from its stored form."""
    presidio = Redaction.of(("ip",), Presidio(entities=("US_SSN", "UK_NINO"), score=0.6))
    joined = EMAIL_ONLY.joined(presidio)
    assert joined == Redaction(("email", "ip"), presidio.presidio)
    assert joined.joined(EMAIL_ONLY) == joined
    assert Redaction.from_json(joined.as_json()) == joined
    assert before_store(Redact()) == NOTHING
    assert before_store(Redact(before=("store",), kinds=("ip",))) == Redaction(("ip",))
