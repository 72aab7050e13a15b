"""What a server and model can do, learned by asking: which form of reply, which parameters. Remembered for each (base_url, model)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from monitor.judging.client import ReplyFormat
from monitor.settings.tree import JudgeSettings

_LADDER = {ReplyFormat.JSON_SCHEMA: ReplyFormat.JSON_OBJECT, ReplyFormat.JSON_OBJECT: ReplyFormat.TEXT}
_TOKEN_KEYS = ("max_completion_tokens", "max_tokens")
_NEW_NAME_HOSTS = ("openai.com", "azure.com")


@dataclass(frozen=True, slots=True)
class Abilities:
    """How to ask: the form of the reply, whether to send a temperature, the names by which a token limit may still be sent."""

    format: ReplyFormat = ReplyFormat.JSON_SCHEMA
    temperature: bool = True
    token_keys: tuple[str, ...] = _TOKEN_KEYS

    def without(self, refused: str) -> Abilities | None:
        """How to ask a server that refused this parameter; None when there is no other way. Reasoning models refuse a temperature and
        want the newer name of the token limit; many servers know the older one only. Where it did not say what it refused, it was
        most likely the form of the reply.
        """
        if refused == "temperature":
            return replace(self, temperature=False) if self.temperature else None
        if refused == "max_tokens":
            return replace(self, token_keys=self.token_keys[1:]) if self.token_keys else None
        return replace(self, format=_LADDER[self.format]) if self.format in _LADDER else None


class AbilityMemory:
    """What was learned, for all judges of the process."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Abilities] = {}

    def of(self, settings: JudgeSettings, model: str) -> Abilities:
        """What is known, or how to ask at first."""
        keys = _TOKEN_KEYS if settings.azure or _host_has_new_name(settings.base_url) else _TOKEN_KEYS[::-1]
        return self._known.get((_endpoint(settings), model), Abilities(token_keys=keys))

    def learn(self, settings: JudgeSettings, model: str, abilities: Abilities) -> None:
        """Remember how a call succeeded."""
        self._known[_endpoint(settings), model] = abilities


def _endpoint(settings: JudgeSettings) -> str:
    return settings.azure.endpoint if settings.azure else settings.base_url


def _host_has_new_name(base_url: str) -> bool:
    host = base_url.partition("://")[2].partition("/")[0].partition(":")[0]
    return host.endswith(_NEW_NAME_HOSTS)
