"""One browser for all tests of this folder, and pages that must not complain."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import skip_for_want_of

sync_playwright: Any
expect: Any
try:
    from playwright.sync_api import expect, sync_playwright
except ImportError:  # then there is no browser, and no test gets as far as using these
    sync_playwright = expect = None

WAIT_MS = 60_000  # for whatever is waited for; a slow machine is no failure
LIGHT, DARK = "light", "dark"
KILLED = re.compile(r"net::ERR_(CONNECTION|INCOMPLETE|EMPTY|NETWORK)")  # what Chromium says when a broker is gone


class Watched:
    """A page with all that its console complains of. `allow` says what may be said; all else fails the test."""

    def __init__(self, page: Any):
        self.page = page
        self._allowed: list[re.Pattern[str]] = []
        self._said: list[str] = []
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda message: message.type in ("error", "warning") and self._said.append(message.text))
        page.on("pageerror", lambda error: self._said.append(f"uncaught: {error}"))

    def allow(self, pattern: str | re.Pattern[str]) -> None:
        self._allowed.append(re.compile(pattern))

    @property
    def complaints(self) -> list[str]:
        return [text for text in self._said if not any(known.search(text) for known in self._allowed)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium, through playwright."""
    chromium = shutil.which("chromium")
    if chromium is None:
        skip_for_want_of("chromium")
    if sync_playwright is None:
        skip_for_want_of("playwright")
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        # Without its sandbox, which root may not have. It sees nothing but the broker of the test.
        found = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture
def watch(browser: Any) -> Iterator[Callable[..., Watched]]:
    """Opens pages, each with a storage of its own; at the end none of them may have complained."""
    opened: list[Watched] = []

    def open_page(address: str, *, theme: str = LIGHT, width: int = 1280, height: int = 900) -> Watched:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
        watched = Watched(context.new_page())
        opened.append(watched)
        watched.page.goto(address)
        return watched

    yield open_page
    complaints = [watched.complaints for watched in opened]
    for watched in opened:
        watched.page.context.close()
    assert not any(complaints), complaints


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where screenshots are kept, for people to look at."""
    path = Path(os.environ.get("SCREENSHOTS") or Path(__file__).parents[2] / "build" / "screenshots")
    path.mkdir(parents=True, exist_ok=True)
    return path
