"""Certificates for TLS tests, made by openssl: an authority, and servers and clients that it signed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key as PEM files."""

    cert: str
    key: str


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, openssl: str, folder: Path) -> None:
        self._openssl = openssl
        self._folder = folder
        folder.mkdir(parents=True)
        self.file = str(folder / "ca.pem")
        self._run("req", "-x509", *self._key("ca"), "-out", self.file, "-days", "2", "-subj", "/CN=test authority")

    def issue(self, name: str) -> Pair:
        """A certificate for localhost and 127.0.0.1."""
        pair = Pair(str(self._folder / f"{name}.pem"), str(self._folder / f"{name}.key"))
        self._run(
            "req", "-x509", *self._key(name), "-out", pair.cert, "-days", "2", "-subj", f"/CN={name}",
            "-CA", self.file, "-CAkey", str(self._folder / "ca.key"),
            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE",
        )  # fmt: skip
        return pair

    def _key(self, name: str) -> tuple[str, ...]:
        return (
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            str(self._folder / f"{name}.key"),
        )

    def _run(self, *arguments: str) -> None:
        subprocess.run([self._openssl, *arguments], check=True, capture_output=True)
