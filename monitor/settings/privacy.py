"""What of people's content is kept, what is replaced before a judge or the disk sees it, and the policy that follows for one monitor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, field_validator

from monitor.settings.section import Section


class StoreContent(StrEnum):
    """Which content is kept on disk: of invocations that a monitor drew, of all, or of none (judged from memory)."""

    SELECTED = "selected"
    ALL = "all"
    NONE = "none"


Finds = Literal["secret", "card", "iban", "email", "phone", "ip"]
ALL_KINDS: tuple[Finds, ...] = ("secret", "card", "iban", "email", "phone", "ip")


class Presidio(Section):
    """Entities that Presidio's recognisers find besides our own kinds. Without `model` only recognisers by pattern and checksum are used,
    and nothing is downloaded.
    """

    entities: tuple[str, ...] = Field(min_length=1)
    language: str = Field("en", pattern="^[a-z]{2}$")
    score: float = Field(0.4, ge=0, le=1)  # Presidio's own: below it a bare number is as likely anything else
    model: str | None = Field(None, min_length=1)  # an installed spaCy package, for names of people and places

    @field_validator("entities")
    @classmethod
    def _not_ours(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "EMAIL_ADDRESS" in value:
            raise ValueError("EMAIL_ADDRESS is found by `kinds: [email]`; Presidio would ask the network for it")
        return tuple(sorted(set(value)))


class Redact(Section):
    """Where and what is replaced before content leaves or is stored."""

    before: tuple[Literal["judge", "store"], ...] = ("judge",)
    kinds: tuple[Finds, ...] = ALL_KINDS
    presidio: Presidio | None = None


class MonitorRedact(Section):
    """What one monitor's judges are to see, where that is not what `privacy.redact` says: a key that is left out is as there.

    `before` is `[judge]` or empty: what is stored is stored once for all monitors.
    """

    before: tuple[Literal["judge"], ...] | None = None
    kinds: tuple[Finds, ...] | None = None
    presidio: Presidio | None = None


class Privacy(Section):
    """What of people's content is kept and shown to judges."""

    store_content: StoreContent = StoreContent.SELECTED
    redact: Redact = Redact()
    drop_attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Redaction:
    """What is replaced in one invocation: our own kinds, and what Presidio finds. Equal policies are equal, in whatever order they were written."""

    kinds: tuple[str, ...] = ()
    presidio: tuple[Presidio, ...] = ()

    @classmethod
    def of(cls, kinds: tuple[str, ...], presidio: Presidio | None = None) -> Redaction:
        """The policy of a section."""
        return cls(tuple(sorted(set(kinds))), (presidio,) if presidio else ())

    def __bool__(self) -> bool:
        return bool(self.kinds or self.presidio)

    def joined(self, other: Redaction) -> Redaction:
        """What either replaces."""
        presidio = (*self.presidio, *(one for one in other.presidio if one not in self.presidio))
        return Redaction(tuple(sorted({*self.kinds, *other.kinds})), presidio)

    def as_json(self) -> dict[str, Any]:
        """For the definition of a rubric version."""
        found = [one.model_dump(mode="json", exclude_defaults=True) for one in self.presidio]
        return {"kinds": list(self.kinds), **({"presidio": found} if found else {})}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Redaction:
        """From a stored definition. Raises KeyError, TypeError or ValueError for anything else."""
        presidio = tuple(Presidio.model_validate(one) for one in stored.get("presidio", ()))
        return cls(tuple(map(str, stored["kinds"])), presidio)


NOTHING = Redaction()

USUAL = Redaction.of(ALL_KINDS)
"""The policy of a configuration that says nothing of redaction."""


def before_judge(redact: Redact, own: MonitorRedact | None = None) -> Redaction:
    """What is replaced before a judge sees an invocation, for a monitor with a policy of its own or for one without."""
    given = own.model_fields_set if own is not None else frozenset()
    if "judge" not in (own.before if own and own.before is not None else redact.before):
        return NOTHING
    kinds = own.kinds if own and own.kinds is not None else redact.kinds
    return Redaction.of(kinds, own.presidio if own and "presidio" in given else redact.presidio)


def before_store(redact: Redact) -> Redaction:
    """What is replaced before content is stored; nothing where `privacy.redact.before` does not have `store`."""
    return Redaction.of(redact.kinds, redact.presidio) if "store" in redact.before else NOTHING
