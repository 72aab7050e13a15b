"""Presidio as an extra: what its recognisers find without a model, in whose name, and what is said where it cannot be used."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from monitor.judging import presidio
from monitor.judging.presidio import PresidioFault, finder
from monitor.judging.redact import redacted
from monitor.settings.privacy import Presidio, Redaction
from tests.support.judging import call, invocation

needs_presidio = pytest.mark.skipif(not presidio.installed(), reason="needs the extra: pip install 'rubricd[presidio]'")
WORLD = Presidio(entities=("CRYPTO", "DE_TAX_ID", "MAC_ADDRESS", "UK_NINO", "US_PASSPORT", "US_SSN"))


@needs_presidio
def test_one_pseudonym_beside_our_own() -> None:
    """Entities are replaced in every text, one value by one pseudonym, beside our own kinds and never inside their pseudonyms."""
    item = invocation(
        call("mail", {"to": "anna@example.org", "nino": "AB 12 34 56 C"}, "ok"),
        user_input="I am anna@example.org, NINO AB 12 34 56 C, social security 219-09-9998.",
    )
    hidden = redacted(item, Redaction(("email",), (WORLD,)))
    assert hidden.user_input == "I am <EMAIL_1>, NINO <UK_NINO_1>, social security <US_SSN_1>."
    assert hidden.tool_calls[0].arguments == {"to": "<EMAIL_1>", "nino": "<UK_NINO_1>"}


@needs_presidio
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("bitcoin 16Yeky6GMjeNkAiNcBY7ZhrLoMSgg1BoyZ", ["CRYPTO"]),
        ("Steuer-ID 65929970489", ["DE_TAX_ID"]),
        ("at 00:1B:44:11:3A:B7", ["MAC_ADDRESS"]),
        ("my passport is 912803456", ["US_PASSPORT"]),
        ("order 912803456", []),
        ("social security 078051121", ["US_SSN"]),
        ("078051121", []),
        ("", []),
    ],
)
def test_found_without_a_model(text: str, found: list[str]) -> None:
    """Patterns, checksums and the words around them tell, and a bare number is none; no model is needed."""
    assert [one.entity for one in finder(WORLD)(text)] == found


@needs_presidio
@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"entities": ("NOPE",)}, "entities: 'NOPE' has no recogniser here; these have: ABA_ROUTING_NUMBER"),
        ({"entities": ("PERSON",)}, "entities: PERSON is found by a model only: give `model`"),
        ({"entities": ("PERSON",), "model": "en_core_nowhere"}, "model: en_core_nowhere is no spaCy package"),
        ({"entities": ("US_SSN",), "language": "qq"}, "language: spaCy cannot load 'qq'"),
    ],
)
def test_what_cannot_be_used(section: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown entities, those that only a model finds, models and languages that are not here are refused by name, and no connection is tried."""

    def refuse(*_: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(PresidioFault) as caught:
        finder(Presidio.model_validate(section))
    assert str(caught.value).startswith(message)


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the package a section that asks for it is refused, and the message says what to install."""
    monkeypatch.setattr(presidio, "installed", lambda: False)
    with pytest.raises(PresidioFault, match=r"pip install 'rubricd\[presidio\]'"):
        finder(Presidio(entities=("PL_PESEL",)))
