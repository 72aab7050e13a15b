"""Signed-in people: a random id in a cookie, the token it was opened with kept here. A restart or a token taken out of the file ends a session."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

SESSION_SECONDS = 12 * 3600.0
MOST_SESSIONS = 1000
TRIES_PER_MINUTE = 10
_MOST_PEERS = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    """Who is signed in: with which token, the secret that forms carry, and until when (seconds since 1970-01-01Z)."""

    id: str
    token: str
    csrf: str
    expires_at: float


class Sessions:
    """All sessions of this process; on the event loop only. The oldest goes when there are too many."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def open(self, token: str, now: float) -> Session:
        """A new session; its id was never given out before, so none can be planted."""
        for known in [one.id for one in self._sessions.values() if one.expires_at <= now]:
            self.close(known)
        while len(self._sessions) >= MOST_SESSIONS:
            self.close(next(iter(self._sessions)))
        session = Session(secrets.token_urlsafe(32), token, secrets.token_urlsafe(32), now + SESSION_SECONDS)
        self._sessions[session.id] = session
        return session

    def find(self, session_id: str | None, now: float) -> Session | None:
        """The session of a cookie, unless it has ended."""
        session = self._sessions.get(session_id or "")
        return session if session is not None and session.expires_at > now else None

    def close(self, session_id: str) -> None:
        """End a session; one that is not there is ended already."""
        self._sessions.pop(session_id, None)


class Tries:
    """How often a peer has tried tokens in vain: a few a minute."""

    def __init__(self) -> None:
        self._tries: dict[str, tuple[float, int]] = {}

    def wait(self, peer: str, now: float) -> float:
        """Seconds until the peer may try again; 0 when it may."""
        since, count = self._tries.get(peer, (now, 0))
        return max(0.0, since + 60.0 - now) if count >= TRIES_PER_MINUTE else 0.0

    def failed(self, peer: str, now: float) -> None:
        """Count a try in vain."""
        since, count = self._tries.get(peer, (now, 0))
        if now - since >= 60.0:
            since, count = now, 0
        if peer not in self._tries and len(self._tries) >= _MOST_PEERS:
            self._tries.pop(next(iter(self._tries)))
        self._tries[peer] = (since, count + 1)
