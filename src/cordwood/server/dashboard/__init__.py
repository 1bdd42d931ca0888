"""The dashboard: one page, its scripts and styles, served from memory.

    GET /                    the page; it holds no data, and asks the other routes for all it shows
    GET /dashboard/{file}    what it is made of: `page/` is ours, `vendored/` others', with their licences

Nothing is fetched from elsewhere, nothing inline runs, and no other page may frame it. Browsers keep the files and
ask each time whether they are still the same.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cordwood.errors import NotFound
from cordwood.http.request import Request
from cordwood.http.response import Headers, Response
from cordwood.server.desk import Desk
from cordwood.server.need import OPEN
from cordwood.server.page_headers import page_headers
from cordwood.server.route import Route, only_names

HERE = Path(__file__).parent
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
GUARDS: Headers = (
    *page_headers("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"),
    ("Cache-Control", "no-cache"),
)


class File(NamedTuple):
    """A file as it is sent."""

    body: bytes
    content_type: str
    tag: str


@cache
def files() -> dict[str, File]:
    """Return all files by name; read once."""
    paths = [path for folder in ("page", "vendored") for path in (HERE / folder).iterdir()]
    return {path.name: _read(path) for path in paths if path.suffix in TYPES}


def _read(path: Path) -> File:
    body = path.read_bytes()
    return File(body, TYPES[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def index(desk: Desk, request: Request) -> Response:
    """Show the page."""
    return show(desk, request, "index.html")


def show(desk: Desk, request: Request, file: str) -> Response:
    """Answer with one file, or with 304 if the client has it as it is."""
    only_names(request)
    found = files().get(file)
    if found is None:
        raise NotFound(f"the dashboard has no file {file[:80]!r}")
    headers = (*GUARDS, ("ETag", found.tag))
    if found.tag.encode() in request.headers.get(b"if-none-match", b""):
        return Response(304, headers=headers)
    return Response(200, found.body, found.content_type, headers)


_KINDS = {"text/html": str, "text/javascript": str, "text/css": str, "image/svg+xml": str, "text/plain": str}
ROUTES: tuple[Route, ...] = (
    Route("GET", "/", "The dashboard", OPEN, index, {200: {"text/html": str}, 304: {}}),
    Route("GET", "/dashboard/{file}", "What it is made of", OPEN, show, {200: _KINDS, 304: {}}, refusals=(404,)),
)
