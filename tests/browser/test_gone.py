"""What is deleted, and what asks for it: no request of the page comes too late."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import KILLED, Watched, expect
from tests.real.served import Served

pytestmark = pytest.mark.xdist_group("browser")

MOST_LOOKERS = 64


def at(broker: Served, place: str = "") -> str:
    return f"http://127.0.0.1:{broker.port}/{place}"


def delete_shown(page: Any, topic: str) -> None:
    """Delete the topic whose page is open."""
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Delete topic").click()
    dialog.get_by_role("textbox").fill(topic)
    dialog.get_by_role("button", name="Delete topic").click()
    expect(page.get_by_text(f"Topic {topic} is deleted.")).to_be_visible()


@pytest.mark.parametrize("part", ["messages", "tail"])
def test_a_request_that_is_on_its_way_is_broken_off(tmp_path: Path, watch: Callable[..., Watched], part: str) -> None:
    """The network holds a read until its topic is gone."""
    with Served(tmp_path) as broker:
        broker.create("clicks")
        page = watch(at(broker)).page
        held: list[Any] = []
        page.route("**/v1/read*", lambda route: held.append(route))
        page.goto(at(broker, "#/topic/clicks"))
        tail = page.locator("section.tail")
        expect(tail).to_be_visible()
        if part == "tail":
            with page.expect_request("**/v1/read*follow=true*"):
                tail.get_by_role("button", name="Start").click()
        delete_shown(page, "clicks")
        assert held
        for route in held:
            route.continue_()
        page.wait_for_timeout(500)  # for answers, if somebody still wants them


def test_what_was_broken_off_is_read_after_all_when_nothing_was_deleted(
    tmp_path: Path, watch: Callable[..., Watched]
) -> None:
    with Served(tmp_path) as broker:
        broker.create("clicks")
        broker.send("clicks", "here I am")
        page = watch(at(broker)).page
        held: list[Any] = []
        page.route("**/v1/read*", lambda route: route.continue_() if held else held.append(route))
        page.goto(at(broker, "#/topic/clicks"))
        page.get_by_role("button", name="Settings").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("retention_ms").fill("60000")
        dialog.get_by_role("button", name="Change settings").click()
        expect(page.get_by_role("cell", name="here I am")).to_be_visible()


def test_the_last_topic_goes_and_leaves_an_empty_page(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    with Served(tmp_path) as broker:
        broker.create("clicks")
        page = watch(at(broker, "#/topic/clicks")).page
        page.evaluate("""() => {
            window.seen = [];
            new MutationObserver(() => seen.push(document.querySelector("main").innerText))
                .observe(document.body, {childList: true, subtree: true, characterData: true});
        }""")
        delete_shown(page, "clicks")
        expect(page.get_by_text("There is no topic yet.")).to_be_visible()
        shown = "\n".join(page.evaluate("window.seen"))
        assert "No topic has" not in shown
        assert "topics are listed" not in shown


def test_a_topic_that_somebody_else_deletes_and_makes_again_goes_and_comes(
    tmp_path: Path, watch: Callable[..., Watched]
) -> None:
    with Served(tmp_path) as broker:
        broker.create("clicks", 2)
        page = watch(at(broker, "#/topic/clicks")).page
        under_way: set[Any] = set()
        page.on("request", lambda request: request.url.endswith("/v1/live") or under_way.add(request))
        for ending in ("requestfinished", "requestfailed"):
            page.on(ending, lambda request: under_way.discard(request))
        page.get_by_role("combobox", name="Partition").select_option("1")
        expect(page.get_by_text("This partition is empty.")).to_be_visible()
        page.get_by_role("button", name="Settings").click()  # nothing is asked for behind a question
        while under_way:
            page.wait_for_timeout(50)
        assert broker.ask("DELETE", "/v1/topics/clicks").status == 204
        expect(page.get_by_text("There is no topic clicks any more.")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.get_by_role("button", name="Delete topic")).to_have_count(0)
        broker.create("clicks", 1)
        broker.send("clicks", "again")
        expect(page.get_by_role("cell", name="again")).to_be_visible()


def test_a_change_without_an_answer_leaves_open_whether_it_was_made(
    tmp_path: Path, watch: Callable[..., Watched]
) -> None:
    with Served(tmp_path) as broker:
        watched = watch(at(broker))
        page, dialog = watched.page, watched.page.get_by_role("dialog")
        page.get_by_role("button", name="Create topic").click()
        dialog.get_by_label("Name").fill("clicks")
        watched.allow(KILLED)
        broker.kill()
        dialog.get_by_role("button", name="Create topic").click()
        expect(dialog.get_by_role("alert")).to_have_text(
            "The broker does not answer. Perhaps it was done, perhaps not: look before you try again."
        )


def test_whoever_is_one_too_many_is_told_so(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    with Served(tmp_path) as broker:
        lookers = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(MOST_LOOKERS)]
        try:
            for looker in lookers:
                looker.sendall(b"GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert b" 200 " in looker.recv(4096)
            watched = watch("about:blank")
            watched.allow("status of 429")
            page = watched.page
            page.goto(at(broker))
            expect(page.get_by_text("64 clients look already; close one of them")).to_be_visible()
            expect(page.get_by_text("does not answer")).to_have_count(0)
        finally:
            for looker in lookers:
                looker.close()
        expect(page.get_by_text("There is no topic yet.")).to_be_visible()
