"""The dashboard's files: all there, all from here, and nothing else may run in its page."""

import re
from html.parser import HTMLParser
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from cordwood.server.dashboard import HERE, TYPES, files
from tests.server.serving import Serving

ROOT = Path(__file__).parents[2]


def test_the_page_is_at_the_root_and_guards_itself(server: Serving) -> None:
    page = server.get("/")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["x-content-type-options"] == "nosniff"
    policy = dict(part.split(maxsplit=1) for part in page.headers["content-security-policy"].split("; "))
    assert {policy[name] for name in ("default-src", "frame-ancestors", "base-uri", "form-action")} == {"'none'"}
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"


def test_nothing_in_the_page_is_inline_or_from_elsewhere() -> None:
    found: list[tuple[str, dict[str, str | None]]] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append((tag, dict(attrs)))

    parser = Parser()
    parser.feed(files()["index.html"].body.decode())
    for tag, attributes in found:
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        where = attributes.get("src") or (attributes.get("href") if tag == "link" else None)
        assert tag not in ("script", "link") or (where or "").removeprefix("/dashboard/") in files()
        assert tag != "style"


def test_every_script_imports_only_files_that_are_there() -> None:
    scripts = [name for name in files() if name.endswith(".js")]
    assert len(scripts) > 10
    for name in scripts:
        text = files()[name].body.decode()
        for target in re.findall(r'^import [^;]*?"([^"]+)";$', text, re.MULTILINE):
            assert target.removeprefix("./") in files(), (name, target)


def test_no_script_of_ours_makes_html_of_text() -> None:
    for path in (HERE / "page").glob("*.js"):
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "EventSource("):
            assert word not in path.read_text(), (path.name, word)


def test_files_come_with_their_type_and_are_not_sent_again(server: Serving) -> None:
    for name, file in files().items():
        reply = server.get(f"/dashboard/{name}")
        assert (reply.status, reply.body) == (200, file.body)
        assert reply.headers["content-type"] == file.content_type
        assert reply.headers["x-content-type-options"] == "nosniff"
        again = server.get(f"/dashboard/{name}", {"If-None-Match": reply.headers["etag"]})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", reply.headers["etag"])
        assert server.get(f"/dashboard/{name}", {"If-None-Match": '"another"'}).status == 200


def test_only_these_files_are_served(server: Serving) -> None:
    for name in ("__init__.py", "nope.js", "..%2F__init__.py", "%2Fetc%2Fpasswd"):
        assert server.get(f"/dashboard/{name}").error == "NOT_FOUND"


def test_what_others_wrote_has_its_licence_beside_it() -> None:
    for path in (HERE / "vendored").glob("*.js"):
        assert path.with_name(f"{path.stem}.LICENSE.txt").exists()


def test_every_file_is_in_the_wheel() -> None:
    packed = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    ours = {path.relative_to(HERE).as_posix() for path in HERE.rglob("*") if path.suffix in TYPES}
    assert len(ours) == len(files())
    assert {f"cordwood/server/dashboard/{path}" for path in ours} <= packed
