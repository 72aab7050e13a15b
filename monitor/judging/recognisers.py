"""What of people and secrets is found in text: by pattern, and by checksum where there is one. Pure.

Order matters: a secret may hold what looks like a card, an IBAN what looks like a phone number. Patterns have bounded repeats only.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_OF_DIGITS = frozenset({"card", "iban", "ip", "phone"})


@dataclass(frozen=True, slots=True)
class Recogniser:
    """A kind of sensitive text: its pattern, a check of what the pattern found, and the form in which equal ones are equal.

    Where the pattern has a group `value`, only that is replaced.
    """

    kind: str
    pattern: re.Pattern[str]
    check: Callable[[str], bool] = lambda found: True
    same: Callable[[str], str] = str.casefold
    needs: tuple[str, ...] = ()
    """One of these is in every text, without regard to case, that the pattern finds; looking for them takes a hundredth of its time."""

    @property
    def needs_digit(self) -> bool:
        """Whether the pattern finds nothing in text without a digit of any script."""
        return self.kind in _OF_DIGITS and not self.needs


def _digits(text: str) -> str:
    return "".join(char for char in text if char.isdecimal())


def luhn(text: str) -> bool:
    """Whether the digits of the text have a right Luhn check digit (ISO/IEC 7812), and are not all the same."""
    digits = [int(char) for char in _digits(text)]
    if not 13 <= len(digits) <= 19 or len(set(digits)) == 1:
        return False
    doubled = [digit if index % 2 == 0 else digit * 2 - 9 * (digit > 4) for index, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def iban(text: str) -> bool:
    """Whether the text is an IBAN: the rest of its number by 97 is 1 (ISO 13616)."""
    plain = "".join(text.split()).upper()
    if not 15 <= len(plain) <= 34:
        return False
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1


def _address(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified) and (
        address.version == 4 or text.count(":") >= 3 or "::" in text
    )


def _phone(text: str) -> bool:
    digits = _digits(text)
    if not 7 <= len(digits) <= 15 or re.fullmatch(
        r"\d{4}[-./ ]\d{1,2}[-./ ]\d{1,2}(?:[ ]\d{1,2})?|\d{1,2}[-./]\d{1,2}[-./]\d{4}", text
    ):
        return False
    international = text.startswith(("+", "(+", "00"))
    national = digits.startswith("0") and len(digits) >= 9
    grouped = len(re.findall(r"\d+", text)) >= 3 and len(digits) >= 9 and "." not in text
    return international or national or grouped


_SENSITIVE_NAME = r"(?:api[_-]?key|secret(?:[_-]?key)?|access[_-]?key|auth[_-]?token|access[_-]?token|password|passwd|pwd|client[_-]?secret)"

RECOGNISERS: Mapping[str, tuple[Recogniser, ...]] = {
    "secret": tuple(
        Recogniser("secret", re.compile(pattern), same=str, needs=needs)
        for needs, pattern in (
            (("private key-----",), r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----[A-Za-z0-9+/=\s]{10,8000}-----END [A-Z ]{0,20}PRIVATE KEY-----"),
            (("eyj",), r"\beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,1000}"),
            (("sk-", "pk-", "rk-"), r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{20,200}"),
            (("_live_", "_test_"), r"\b(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{16,200}"),
            (("akia", "asia"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
            (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_[A-Za-z0-9]{30,255}"),
            (("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{30,255}"),
            (("glpat-",), r"\bglpat-[A-Za-z0-9_-]{20,100}"),
            (("xox",), r"\bxox[abprs]-[A-Za-z0-9-]{10,200}"),
            (("aiza",), r"\bAIza[A-Za-z0-9_-]{35}"),
            (("bearer",), r"(?i)\bbearer[ ]{1,3}(?P<value>[A-Za-z0-9._~+/=-]{16,2000})"),
            (
                ("key", "secret", "token", "passw", "pwd"),
                rf"(?i)\b{_SENSITIVE_NAME}\b[\"']?[ ]{{0,3}}[:=][ ]{{0,3}}[\"']?(?P<value>[^\s\"',;<>]{{6,500}})",
            ),
        )
    ),
    "email": (
        Recogniser("email", re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w-])"), needs=("@",)),
    ),
    "iban": (
        Recogniser(
            "iban",
            re.compile(r"(?<![\w])[A-Za-z]{2}\d{2}(?:[ ]?[A-Za-z0-9]{1,4}){3,8}(?![\w])"),
            iban,
            lambda found: "".join(found.split()).upper(),
        ),
    ),
    "card": (
        Recogniser("card", re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-]|\.\d)"), luhn, _digits),
    ),
    "ip": (
        Recogniser("ip", re.compile(r"(?<![\w.:])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)"), _address),
        Recogniser("ip", re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])"), _address, needs=(":",)),
    ),
    "phone": (
        Recogniser(
            "phone",
            re.compile(r"(?<![\w.,:/=-])(?:\(?\+\d{1,3}\)?[ .-]?)?(?:\(\d{1,5}\)[ .-]?)?\d{1,12}(?:[ ./-]?\d{2,12}){0,5}(?![\w]|[-.,:/]\d)"),
            _phone,
            _digits,
        ),
    ),
}  # fmt: skip
"""The recognisers of each kind that `privacy.redact.kinds` may name."""

ORDER = ("secret", "email", "iban", "card", "ip", "phone")

SECRET_KEYS = re.compile(
    rf"(?i)\A(?:{_SENSITIVE_NAME}|authorization|proxy-authorization|x-api-key|cookie|set-cookie)\Z"
)
"""Keys of JSON objects whose text is a secret whatever it looks like."""
