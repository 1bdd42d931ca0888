"""The same over TLS."""

import shutil
import ssl
import subprocess
from pathlib import Path

from cordwood.client.connection import Connection
from cordwood.client.endpoint import endpoint
from cordwood.http.request import Request
from cordwood.http.response import Response
from tests.conftest import skip_for_want_of
from tests.http.running import Running


def test_requests_and_large_answers_go_over_tls(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        skip_for_want_of("openssl")
    key, certificate = tmp_path / "k", tmp_path / "c"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make, *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(certificate))

    def twice(request: Request) -> Response:
        return Response(200, bytes(request.body) * 2, "text/plain")

    with Running(twice, ssl_context=context) as server:
        connection = Connection(endpoint(f"https://localhost:{server.port}", tls=trusting), 30)
        for size in (0, 10, 3_000_000):
            reply = connection.request("POST", "/", b"x" * size)
            assert (reply.status, len(reply.body)) == (200, 2 * size)
        connection.close()
