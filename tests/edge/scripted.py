"""A small server that answers produce requests as it is told, and keeps what it was asked."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa

Script = list[tuple[int, dict[str, object], dict[str, str]]]


class Scripted:
    """Answers with the script's entries (status, body, headers), then with 200. `requests`: (query, rows)."""

    def __init__(self, script: Script, partitions: int = 1, port: int = 0):
        self.script = script
        self.requests: list[tuple[dict[str, str], int]] = []
        self.gate = threading.Event()  # answers wait while it is not set
        self.gate.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(200, {"partitions": [{}] * partitions}, {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
                outer.requests.append((query, pa.ipc.open_stream(body).read_all().num_rows))
                outer.gate.wait(30)
                stored: dict[str, object] = {"count": outer.requests[-1][1], "durability": "fsync"}
                status, answer, headers = outer.script.pop(0) if outer.script else (200, stored, {})
                self._answer(status, answer, headers)

            def _answer(self, status: int, answer: dict[str, object], headers: dict[str, str]) -> None:
                data = json.dumps(answer).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> "Scripted":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()
