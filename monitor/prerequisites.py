"""What a configuration needs of the machine that the daemon runs on: files that can be read, extras that are installed.

A file that names a key, a token or a certificate may lie on the machine of the daemon alone. So these faults are kept apart: `rubricd run` does not
start with one, `rubricd check` reports them too, and as warnings only where it is told that the daemon runs elsewhere.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from monitor.judging.presidio import PresidioFault, finder
from monitor.settings.document import Fault
from monitor.settings.load import LoadedSettings
from monitor.settings.privacy import Presidio

KeyPath = tuple[str | int, ...]

_HOLD_NO_FILES = frozenset({"proc", "sysfs", "cgroup", "cgroup2", "devpts", "debugfs", "tracefs", "securityfs"})
"""File systems of the kernel's own, whose permissions say that root may write what nobody can."""


def missing(loaded: LoadedSettings) -> Iterator[Fault]:
    """Everything that is not there, or cannot be used."""
    settings = loaded.settings
    for name, judge in settings.judges.items():
        if judge.api_key_file is not None:
            yield from _secret(loaded, ("judges", name, "api_key_file"), judge.api_key_file)
    server = settings.server.model_dump(include={"tls", "auth"})
    yield from _section(loaded, ("server",), server)
    yield from _section(loaded, ("collectors",), settings.collectors)
    yield from _presidio(loaded)


def _section(loaded: LoadedSettings, path: KeyPath, section: Mapping[str, Any]) -> Iterator[Fault]:
    """Keys that end in `_file`, wherever they stand; certificates together with their keys."""
    if isinstance(section.get("cert_file"), str) and isinstance(section.get("key_file"), str):
        yield from _certificate(loaded, path, section)
        section = {key: value for key, value in section.items() if key not in ("cert_file", "key_file")}
    for key, value in section.items():
        here = (*path, key)
        if isinstance(value, Mapping):
            yield from _section(loaded, here, value)
        elif isinstance(value, str) and key in ("bearer_token_file", "password_file"):
            yield from _secret(loaded, here, value)
        elif isinstance(value, str) and str(key).endswith("ca_file"):
            yield from _authority(loaded, here, value)


def _secret(loaded: LoadedSettings, path: KeyPath, file: str) -> Iterator[Fault]:
    try:
        if not Path(file).read_text(encoding="utf-8").strip():
            yield loaded.document.fault(path, f"{file} is empty: it holds the secret")
    except (OSError, UnicodeDecodeError) as error:
        yield loaded.document.fault(path, f"{file} {_unreadable(error)}")


def _certificate(loaded: LoadedSettings, path: KeyPath, section: Mapping[str, Any]) -> Iterator[Fault]:
    unread = [(key, reason) for key in ("cert_file", "key_file") if (reason := _cannot_be_read(section[key]))]
    for key, reason in unread:
        yield loaded.document.fault((*path, key), f"{section[key]} {reason}")
    if not unread:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                section["cert_file"], section["key_file"], lambda: ""
            )
        except (OSError, ssl.SSLError):
            yield loaded.document.fault(
                (*path, "cert_file"), f"{section['cert_file']} is no certificate in PEM form, or not that of key_file"
            )


def _authority(loaded: LoadedSettings, path: KeyPath, file: str) -> Iterator[Fault]:
    reason = _cannot_be_read(file)
    if not reason:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
        except (OSError, ssl.SSLError):
            reason = "holds no certificate in PEM form"
    if reason:
        yield loaded.document.fault(path, f"{file} {reason}")


def _cannot_be_read(file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            opened.read(1)
    except OSError as error:
        return _unreadable(error)
    return ""


def _unreadable(error: OSError | UnicodeDecodeError) -> str:
    return f"cannot be read: {error.strerror}" if isinstance(error, OSError) else "is not UTF-8 text"


def _presidio(loaded: LoadedSettings) -> Iterator[Fault]:
    """Sections whose recognisers are not here."""
    sections: list[tuple[KeyPath, Presidio | None]] = [
        (("privacy", "redact", "presidio"), loaded.settings.privacy.redact.presidio)
    ]
    for name, monitor in loaded.settings.monitors.items():
        if monitor.redact is not None:
            sections.append((("monitors", name, "redact", "presidio"), monitor.redact.presidio))
    for path, section in sections:
        if section is not None and loaded.sound(*path):
            try:
                finder(section)
            except PresidioFault as fault:
                key, colon, reason = str(fault).partition(": ")
                known = colon and key in Presidio.model_fields
                yield loaded.document.fault((*path, key) if known else path, reason if known else str(fault))


def unwritable(loaded: LoadedSettings) -> Iterator[Fault]:
    """A data folder that this user cannot make or write, as far as it can be told without making one."""
    path = loaded.settings.storage.path
    try:
        folder = Path(path).expanduser().absolute()
        inside = [one for one in (folder / "journal", folder / "rubricd.db") if one.exists()]
        reasons = [_not_written(folder), *(f"{one.name} in it {why}" for one in inside if (why := _not_written(one)))]
    except (OSError, ValueError, RuntimeError) as error:  # a name that is too long, a zero byte, a home of nobody
        reasons = [getattr(error, "strerror", None) or "is no path"]
    for reason in reasons:
        if reason:
            yield loaded.document.fault(("storage", "path"), f"{path}: {reason}")
            return


def _not_written(place: Path) -> str:
    """Why this user cannot write a place, or make it where it is not there yet; empty where nothing speaks against it."""
    nearest = next(one for one in (place, *place.parents) if os.path.lexists(one))
    who = f"by user id {os.getuid()}"
    if nearest != place and not nearest.is_dir():
        return f"cannot be made: {nearest} is no folder"
    if _file_system(nearest) in _HOLD_NO_FILES:
        return f"cannot be made {who}: {nearest} holds no files of ours"
    if not os.access(nearest, os.W_OK | (os.X_OK if nearest.is_dir() else 0)):
        return f"cannot be written {who}" if nearest == place else f"cannot be made {who}: {nearest} cannot be written"
    return ""


def _file_system(place: Path) -> str:
    """The type of the file system that a place is on; empty where the machine does not tell."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text(errors="replace").splitlines()]
    except OSError:
        return ""
    real = place.resolve()
    found = [
        (len(where), number, kind) for number, (_, where, kind, *_) in enumerate(mounts) if real.is_relative_to(where)
    ]
    return max(found, default=(0, 0, ""))[2]
