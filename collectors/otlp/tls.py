"""Certificates of a listener, for both transports. A certificate that is renewed on disk is used from the next connection on."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any

from collectors.collector import CollectorFailed
from collectors.otlp.config import TlsConfig

logger = logging.getLogger(__name__)


class CertificateFiles:
    """The files of a TlsConfig and whether they have changed."""

    def __init__(self, config: TlsConfig) -> None:
        self.config = config
        self._paths = [Path(name) for name in (config.cert_file, config.key_file, config.client_ca_file) if name]
        self._version = self._seen()

    def changed(self) -> bool:
        """Whether a file was replaced since the last call; False while one cannot be looked at."""
        try:
            version = self._seen()
        except OSError:
            return False
        changed, self._version = version != self._version, version
        return changed

    def _seen(self) -> tuple[tuple[int, int], ...]:
        return tuple((status.st_mtime_ns, status.st_ino) for status in (path.stat() for path in self._paths))


def http_context(config: TlsConfig, place: str) -> ssl.SSLContext:
    """The TLS context of an HTTP listener. Raises CollectorFailed naming the file that is wrong.

    A renewed certificate is picked up at the next handshake; a renewed client authority needs a restart of the listener.
    """
    files = _checked(config, place)
    context = _context(config)
    current = context

    def renew(connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context_in_use: ssl.SSLContext) -> None:
        nonlocal current
        if files.changed():
            try:
                current = _context(config)
            except (OSError, ssl.SSLError) as error:
                logger.warning("%s: the changed certificate cannot be used, the old one stays: %s", place, error)
        connection.context = current

    context.sni_callback = renew
    return context


def grpc_credentials(config: TlsConfig, place: str) -> Any:
    """The grpc.ServerCredentials of a listener. Raises CollectorFailed naming the file that is wrong."""
    import grpc

    files = _checked(config, place)

    def configuration() -> Any:
        authority = Path(config.client_ca_file).read_bytes() if config.client_ca_file else None
        pair = (Path(config.key_file).read_bytes(), Path(config.cert_file).read_bytes())
        return grpc.ssl_server_certificate_configuration([pair], authority)

    def renewed() -> Any:
        if not files.changed():
            return None
        try:
            _context(config)  # grpc takes anything and fails at the handshake
            return configuration()
        except (OSError, ssl.SSLError) as error:
            logger.warning("%s: the changed certificate cannot be used, the old one stays: %s", place, error)
            return None

    return grpc.dynamic_ssl_server_credentials(configuration(), renewed, config.client_ca_file is not None)


def _checked(config: TlsConfig, place: str) -> CertificateFiles:
    """The files, after they have been loaded once."""
    try:
        _context(config)
        return CertificateFiles(config)
    except (OSError, ssl.SSLError) as error:
        raise CollectorFailed(f"{place}: tls: {_culprit(config)}: {error.strerror or error}") from None


def _culprit(config: TlsConfig) -> str:
    """The first file that cannot be read, else the pair of which something does not fit."""
    for name in (config.cert_file, config.key_file, config.client_ca_file):
        if name is not None and not Path(name).is_file():
            return name
    return f"{config.cert_file} with {config.key_file}" + (
        f", {config.client_ca_file}" if config.client_ca_file else ""
    )


def _context(config: TlsConfig) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(config.cert_file, config.key_file)
    if config.client_ca_file is not None:
        context.load_verify_locations(config.client_ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
