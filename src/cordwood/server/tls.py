"""TLS: a certificate and its key, read when the broker starts and again when they change."""

import logging
import os
import ssl

from cordwood.errors import Refused
from cordwood.settings import Settings

log = logging.getLogger("cordwood.tls")


class Certificate:
    """The certificate that a broker shows. `context` is for its listener, and stays the same over a renewal."""

    def __init__(self, cert: str, key: str):
        """Raises Refused for files that are not there, not PEM, or not of each other."""
        self._cert, self._key = cert, key
        self._stamp = self._look()
        self.context = _context(cert, key)

    def look(self) -> None:
        """Show the new certificate from here on, if the files have changed; the old one if they cannot be used."""
        stamp = self._look()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            _context(self._cert, self._key)  # in one that nobody uses: what fails half-way would stay in ours
            _load(self.context, self._cert, self._key)
            log.info("the certificate was read again")
        except Refused as error:
            log.error("the certificate stays as it was: %s", error)

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stamp(path) for path in (self._cert, self._key))


def certificate(settings: Settings) -> Certificate | None:
    """Return what the settings say, None for no TLS."""
    if not settings.tls_cert and not settings.tls_key:
        return None
    if not settings.tls_cert or not settings.tls_key:
        given, missing = ("tls_cert", "tls_key") if settings.tls_cert else ("tls_key", "tls_cert")
        raise Refused(f"{given} is given and {missing} is not; TLS needs both")
    return Certificate(settings.tls_cert, settings.tls_key)


def _context(cert: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    _load(context, cert, key)
    return context


def _load(context: ssl.SSLContext, cert: str, key: str) -> None:
    for name, path in (("tls_cert", cert), ("tls_key", key)):
        try:
            with open(path, "rb") as file:
                text = file.read(1 << 20)
        except OSError as error:
            raise Refused(f"{name}: {path}: {error.strerror}") from error
        if b"-----BEGIN " not in text:
            raise Refused(f"{name}: {path} is not PEM")
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise Refused(f"tls_key: {key} is not the key of {cert}") from None
        raise Refused(f"tls_cert: {cert} and {key} cannot be used: {error.reason or error}") from None


def _no_password() -> str:
    raise Refused("tls_key is encrypted, and nobody is there to give its password; take one that is not")


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
