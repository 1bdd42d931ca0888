"""Certificates for tests, each signed by itself."""

import shutil
import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.conftest import skip_for_want_of


class Pair(NamedTuple):
    """A certificate for localhost and 127.0.0.1, and its key."""

    cert: str
    key: str

    def serving(self) -> ssl.SSLContext:
        """Return what a server shows."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        return context

    def trusting(self) -> ssl.SSLContext:
        """Return what a client that trusts it has."""
        return ssl.create_default_context(cafile=self.cert)


def make_pair(folder: Path, name: str = "server") -> Pair:
    """Make a certificate and its key in a folder."""
    if shutil.which("openssl") is None:
        skip_for_want_of("openssl")
    pair = Pair(str(folder / f"{name}.crt"), str(folder / f"{name}.key"))
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    names = ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", *curve, "-nodes", "-days", "2", *names, "-keyout", pair.key, "-out", pair.cert]
    subprocess.run(made, check=True, capture_output=True)
    return pair
