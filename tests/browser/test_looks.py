"""The dashboard for everybody: both themes, a phone, a keyboard alone, a token; and no message becomes a page."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import world
from tests.browser.conftest import DARK, LIGHT, Watched, expect
from tests.conftest import skip_for_want_of
from tests.real.served import Served, until

pytestmark = pytest.mark.xdist_group("browser")

PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A broker as a shop might have it, with some of its history in the tier."""
    path = tmp_path_factory.mktemp("shop")
    (path / "settings.toml").write_text("tier_interval_s = 1\nsegment_bytes = 1048576\n")
    with Served(path / "data", "--config", str(path / "settings.toml")) as found:
        world.fill(found, 600)
        until(lambda: found.topic("orders")["partitions"][0]["tiered_offset"], "something is tiered")
        world.produce(
            found, "orders", [{"value": world.HOSTILE, "key": world.HOSTILE, "headers": {world.HOSTILE: "x"}}] * 3
        )
        yield found


@pytest.fixture(scope="module")
def axe() -> Any:
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        skip_for_want_of("axe-playwright-python")
    return Axe()


def at(broker: Served, place: str = "") -> str:
    return f"http://127.0.0.1:{broker.port}/{place}"


def whole_topic(page: Any) -> None:
    """Wait until a topic's page shows all it has."""
    expect(page.get_by_role("table", name="Dead letters")).to_be_visible()
    expect(page.get_by_role("article")).to_have_count(2)
    expect(page.get_by_role("table", name="Messages of orders")).to_be_visible()


def whole_overview(page: Any) -> None:
    expect(page.get_by_role("row", name="billing/invoices").get_by_role("img")).to_be_visible()
    expect(page.get_by_role("row", name="mailer")).to_be_visible()


def check(axe: Any, page: Any, part: str | None = None) -> None:
    """Have axe look at a page, or at one part of it."""
    found = axe.run(page, part, {"resultTypes": ["violations"], "preload": False})
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_nobody_is_shut_out_in_either_theme(
    broker: Served, watch: Callable[..., Watched], axe: Any, pictures: Path, theme: str
) -> None:
    page = watch(at(broker), theme=theme).page
    whole_overview(page)
    check(axe, page)
    page.screenshot(path=pictures / f"overview-{theme}.png", full_page=True)
    page.get_by_role("button", name="Create topic").click()
    page.get_by_text("Retention and limits").click()
    check(axe, page, "dialog")
    page.keyboard.press("Escape")
    page.get_by_role("row", name="mailer").get_by_role("link").click()
    whole_topic(page)
    page.get_by_role("button", name="Message").first.click()
    page.get_by_role("button", name="Hex").click()
    page.mouse.move(0, 0)
    check(axe, page)
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=pictures / f"topic-{theme}.png", full_page=True)
    for name in ("Seek group mailer", "Settings of group mailer", "Delete topic")[:: 1 if theme == LIGHT else 2]:
        page.get_by_role("button", name=name).click()
        check(axe, page, "dialog")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_theme_that_was_chosen_stays(broker: Served, watch: Callable[..., Watched]) -> None:
    page = watch(at(broker), theme=LIGHT).page
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    for name in ("Theme: system. Change it", "Theme: light. Change it"):
        page.get_by_role("button", name=name).click()
    dark = page.evaluate(colour)
    assert dark != light
    page.reload()
    expect(page.get_by_role("button", name="Theme: dark. Change it")).to_be_visible()
    assert page.evaluate(colour) == dark
    page.get_by_role("button", name="Theme: dark. Change it").click()
    assert page.evaluate(colour) == light


@pytest.mark.parametrize(("place", "whole"), [("", whole_overview), ("#/topic/orders", whole_topic)])
def test_a_phone_need_not_scroll_sideways(
    broker: Served, watch: Callable[..., Watched], pictures: Path, place: str, whole: Callable[[Any], None]
) -> None:
    page = watch(at(broker, place), **PHONE).page
    if place:
        whole(page)
        page.get_by_role("button", name="Message").first.click()
    else:
        expect(page.get_by_role("row", name="mailer")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=pictures / f"{'topic' if place else 'overview'}-phone.png", full_page=True)


FOCUSED = "((e) => e === document.body ? '' : e.ariaLabel || e.innerText)(document.activeElement)"


def tab_to(page: Any, name: str) -> None:
    """Press Tab until something of this name has the focus."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if name in page.evaluate(FOCUSED):
            return
    raise AssertionError(f"no way to {name!r} by keyboard")


def test_a_keyboard_is_enough(broker: Served, watch: Callable[..., Watched]) -> None:
    page = watch(at(broker)).page
    whole_overview(page)
    tab_to(page, "Create topic")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert "Create topic" in page.evaluate("document.activeElement.innerText"), "the focus is back"
    page.keyboard.press("Enter")
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("by-keyboard")
    tab_to(page, "All topics")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row", name="by-keyboard")).to_be_visible()
    tab_to(page, "by-keyboard")
    page.keyboard.press("Enter")
    world.produce(broker, "by-keyboard", [{"value": "hello"}])
    expect(page.get_by_role("cell", name="hello")).to_be_visible()
    tab_to(page, "Message 0 of partition 0")
    page.keyboard.press("Enter")
    tab_to(page, "Hex")
    page.keyboard.press("Space")
    expect(page.get_by_role("region", name="Value")).to_contain_text("68 65 6c 6c 6f")
    page.evaluate("document.querySelector('main').focus()")
    tab_to(page, "Delete topic")
    page.keyboard.press("Enter")
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Topic by-keyboard is deleted.")).to_be_visible()
    assert broker.ask("GET", "/v1/topics/by-keyboard").status == 404


def test_a_hidden_tab_looks_away(broker: Served, watch: Callable[..., Watched]) -> None:
    page = watch(at(broker)).page
    whole_overview(page)
    hide = """hidden => {
        Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/v1/live")):
        page.evaluate(hide, True)
    with page.expect_request("**/v1/live"):
        page.evaluate(hide, False)
    expect(page.get_by_role("status").first).to_have_text("Live")


def test_no_message_becomes_a_page(broker: Served, watch: Callable[..., Watched]) -> None:
    watched = watch(at(broker, "#/topic/orders"))
    page = watched.page
    whole_topic(page)
    messages = page.get_by_role("region", name="Messages of orders")
    ends = [(p["partition"], p["end_offset"]) for p in broker.topic("orders")["partitions"]]
    hostile = next(n for n, end in ends if broker.read("orders", n, offset=end - 1)[0]["value"] == world.HOSTILE)
    page.get_by_role("combobox", name="Partition").select_option(str(hostile))
    expect(messages.get_by_text(world.HOSTILE).first).to_be_visible()
    messages.get_by_role("button", name="Message").last.click()
    for view in ("Text", "JSON", "Hex"):
        messages.get_by_role("button", name=view).click()
    expect(messages.get_by_role("rowheader", name=world.HOSTILE)).to_be_visible()
    expect(page.get_by_role("table", name="Dead letters").get_by_text(world.HOSTILE).first).to_be_visible()
    assert page.locator("img[src=x]").count() == 0
    watched.allow("status of 40[04]")
    page.goto(at(broker, "#/topic/%3Cimg%20src=x%20onerror=%22document.title='hacked'%22%3E"))
    expect(page.get_by_role("alert")).to_contain_text("<img src=x")
    assert page.locator("img[src=x]").count() == 0
    assert "hacked" not in page.title() or "<img" in page.title(), "the title names the topic, as text"


def test_a_broker_that_wants_a_token_gets_it_with_every_request(
    broker: Served, watch: Callable[..., Watched]
) -> None:
    watched = watch("about:blank")
    page = watched.page
    watched.allow("status of 40[13]")
    seen: list[str | None] = []

    def door(route: Any) -> None:
        shown = route.request.headers.get("authorization")
        seen.append(shown)
        if shown not in ("Bearer right", "Bearer some"):
            body = {"error": "UNAUTHENTICATED", "message": "a token is wanted"}
            route.fulfill(status=401, content_type="application/json", body=json.dumps(body))
        elif shown == "Bearer some" and route.request.url.endswith("/v1/live"):
            body = {"error": "PERMISSION_DENIED", "message": "the token 'some' lacks admin for everything"}
            route.fulfill(status=403, content_type="application/json", body=json.dumps(body))
        else:
            route.continue_()

    page.route("**/v1/**", door)
    page.goto(at(broker))
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("This broker wants a token")
    dialog.get_by_label("Token").fill("wrong")
    dialog.get_by_role("button", name="Use token").click()
    expect(dialog.get_by_role("alert")).to_have_text("The broker does not accept this token.")
    dialog.get_by_label("Token").fill("right")
    dialog.get_by_role("button", name="Use token").click()
    whole_overview(page)
    seen.clear()
    page.reload()
    whole_overview(page)
    assert set(seen) == {"Bearer right"}, "it was kept"

    # A token that may not see everything: it is said which right it lacks, and what it may see is shown.
    page.get_by_role("button", name="Forget token").click()
    dialog.get_by_label("Token").fill("some")
    dialog.get_by_role("button", name="Use token").click()
    expect(page.get_by_role("alert")).to_contain_text("the token 'some' lacks admin for everything")
    page.get_by_role("row", name="mailer").get_by_role("link").click()
    whole_topic(page)


def test_the_page_of_the_routes_fits_a_phone(broker: Served, watch: Callable[..., Watched]) -> None:
    page = watch(at(broker, "docs"), **PHONE).page
    page.evaluate("document.querySelectorAll('details').forEach((found) => { found.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
