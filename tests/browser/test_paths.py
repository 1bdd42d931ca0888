"""The dashboard as an operator uses it: clicked through on a real broker, which is killed in the middle."""

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.browser.conftest import KILLED, Watched, expect
from tests.real.served import Served

pytestmark = pytest.mark.xdist_group("browser")


FUTURE_MS = 4_000_000_000_000  # later than anything else
# A time as a person types it.
LOCAL = """ms => {
    const at = new Date(ms);
    at.setMinutes(at.getMinutes() - at.getTimezoneOffset());
    return at.toISOString().slice(0, 23);
}"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def producing(broker: Served, topic: str) -> Iterator[None]:
    """Have somebody send messages, one after the other, for the length of a `with`."""
    stop = threading.Event()

    def send() -> None:
        while not stop.is_set():
            broker.send(topic, "tick")

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_topic_lives_and_a_broker_dies_and_comes_back(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    with Served(tmp_path, "--port", str(free_port())) as broker:
        watched = watch(f"http://127.0.0.1:{broker.port}/")
        page = watched.page
        dialog = page.get_by_role("dialog")
        said = page.get_by_role("status")

        # Nothing yet: it says what to do.
        expect(said.first).to_have_text("Live")
        expect(
            page.get_by_text(f"""curl -d '{{"name": "clicks"}}' http://127.0.0.1:{broker.port}/v1/topics""")
        ).to_be_visible()

        # A topic that cannot be is refused in the broker's words; one that can be is made.
        page.get_by_role("button", name="Create topic").click()
        dialog.get_by_label("Name").fill("no spaces, please")
        watched.allow("status of 400")
        dialog.get_by_role("button", name="Create topic").click()
        expect(dialog.get_by_role("alert")).to_contain_text("no spaces, please")
        dialog.get_by_label("Name").fill("clicks")
        dialog.get_by_label("Partitions").fill("2")
        dialog.get_by_role("button", name="Create topic").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("clicks")
        expect(page.get_by_text("Topic clicks is there, with 2 partitions.")).to_be_visible()
        assert len(broker.topic("clicks")["partitions"]) == 2
        expect(page.get_by_text("This partition is empty.")).to_be_visible()
        expect(page.get_by_text("cordwood consume clicks --group NAME")).to_be_visible()

        # Somebody produces: the rate moves.
        page.get_by_role("link", name="Cordwood").click()
        rate = page.get_by_role("figure").filter(has_text="Messages per second").locator("li", has_text="produced")
        with producing(broker, "clicks"):
            expect(rate.locator("b")).to_have_text(re.compile(r"[1-9]"))
        expect(rate.locator("b")).to_have_text("0")

        # The log by offset and by time; a value as text, as JSON and as bytes.
        page.get_by_role("row", name="clicks").get_by_role("link").click()
        for number in range(60):
            value = json.dumps({"n": number, "id": 12345678901234567890})
            broker.send("clicks", value, partition=0, timestamp=FUTURE_MS + number)
        start = broker.topic("clicks")["partitions"][0]["end_offset"] - 60
        expect(page.get_by_role("table", name="Partitions of clicks")).to_contain_text(f"{start + 60:,}")
        browse = page.get_by_role("region", name="Messages of clicks, partition 0")
        form = page.locator("form").filter(has=page.get_by_role("button", name="Show"))
        form.get_by_role("combobox", name="From").select_option("an offset")
        form.get_by_role("textbox", name="Offset").fill(str(start + 10))
        form.get_by_role("button", name="Show").click()
        rows = browse.locator("tbody tr")
        expect(rows.first).to_contain_text('"n": 10')
        expect(rows).to_have_count(25)
        form.get_by_role("button", name="Next").click()
        expect(rows.first).to_contain_text('"n": 35')
        form.get_by_role("button", name="Previous").click()
        expect(rows.first).to_contain_text('"n": 10')
        browse.get_by_role("button", name="Message").first.click()
        browse.get_by_role("button", name="JSON").click()
        value = browse.get_by_role("region", name="Value")
        expect(value).to_have_text('{\n  "n": 10,\n  "id": 12345678901234567890\n}', use_inner_text=True)
        browse.get_by_role("button", name="Hex").click()
        expect(value).to_contain_text("000000  7b 22 6e 22 3a 20 31 30")
        form.get_by_role("combobox", name="From").select_option("a time")
        form.get_by_role("textbox", name="Time").fill(page.evaluate(LOCAL, FUTURE_MS + 40))
        form.get_by_role("button", name="Show").click()
        expect(rows.first).to_contain_text('"n": 40')

        # The live tail shows what comes, while it runs.
        tail = page.locator("section.tail")
        with page.expect_request(re.compile("follow=true")):
            tail.get_by_role("button", name="Start").click()
        with producing(broker, "clicks"):
            expect(tail.get_by_role("row").nth(1)).to_contain_text("tick")
        tail.get_by_role("button", name="Stop").click()
        expect(tail.get_by_role("button", name="Start")).to_be_visible()

        # A message is given up; its error is shown; it is sent back.
        broker.ask("PATCH", "/v1/groups/clicks/mailer", {"max_attempts": 1, "start": "latest"})
        broker.send("clicks", "poison", partition=1)
        (row,) = broker.lease("clicks", "mailer")
        where = {"topic": "clicks", "group": "mailer", "partition": 1, "offset": row["offset"]}
        assert broker.ask("POST", "/v1/nack", {**where, "reason": "mailbox full"}).status == 204
        expect(page.get_by_role("cell", name="mailbox full")).to_be_visible()
        page.get_by_label("Choose dead letter 0 of partition 1").check()
        page.get_by_role("button", name="Redrive chosen (1)").click()
        expect(dialog).to_contain_text("Sends 1 chosen dead letters back to clicks")
        dialog.get_by_role("button", name="Redrive").click()
        expect(page.get_by_text("1 dead letter was sent back.")).to_be_visible()
        expect(page.get_by_text("No dead letter waits: all were sent back.")).to_be_visible()
        assert [m["value"] for m in broker.lease("clicks", "mailer", owner="me")] == ["poison"]
        group = page.get_by_role("article", name="Group mailer")
        expect(group.get_by_role("row").nth(2).get_by_role("img")).to_have_attribute(
            "aria-label", re.compile("1 in flight, 1 not done")
        )

        # The broker dies: what is shown stays, and is marked; and it comes back by itself.
        watched.allow(KILLED)
        broker.kill()
        expect(said.first).to_have_text("Reconnecting…")
        expect(page.get_by_text("The broker does not answer. What is shown is as of")).to_be_visible()
        expect(group).to_be_visible()
        broker.start()
        expect(said.first).to_have_text("Live")
        expect(page.get_by_text("The broker does not answer.")).to_have_count(0)
        expect(group.get_by_role("row").nth(2).get_by_role("img")).to_have_attribute(
            "aria-label", re.compile("0 in flight, 1 not done")
        )

        # A group is sent elsewhere, changed, and deleted; each only after a question.
        group.get_by_role("button", name="Seek").click()
        dialog.get_by_role("combobox", name="Go on from").select_option("an offset")
        dialog.get_by_role("textbox", name="Offset").fill("5")
        dialog.get_by_role("combobox", name="Partition").select_option("0")
        expect(dialog).to_contain_text("Group mailer goes on from offset 5 of partition 0")
        assert broker.ask("GET", "/v1/groups/clicks/mailer").json["partitions"][0]["floor"] > 5
        dialog.get_by_role("button", name="Seek", exact=True).click()
        expect(page.get_by_text("Group mailer goes on from offset 5 of partition 0.")).to_be_visible()
        expect(group.get_by_role("row").nth(1).get_by_role("cell").nth(2)).to_have_text("5")
        group.get_by_role("button", name="Settings").click()
        dialog.get_by_label("lease_ms").fill("45000")
        expect(dialog).to_contain_text("This will change lease_ms from 30000 to 45000")
        dialog.get_by_role("button", name="Change settings").click()
        expect(page.get_by_text("Settings of group mailer are changed.")).to_be_visible()
        assert broker.ask("GET", "/v1/groups/clicks/mailer").json["settings"]["lease_ms"] == 45_000
        group.get_by_role("button", name="Delete").click()
        dialog.get_by_role("textbox").fill("mailer")
        dialog.get_by_role("button", name="Delete group").click()
        expect(group).to_have_count(0)
        assert broker.ask("GET", "/v1/groups/clicks/mailer").status == 404

        # The topic, too; and only by its whole name.
        page.get_by_role("button", name="Delete topic").click()
        dialog.get_by_role("textbox").fill("click")
        expect(dialog.get_by_role("button", name="Delete topic")).to_be_disabled()
        dialog.get_by_role("textbox").fill("clicks")
        dialog.get_by_role("button", name="Delete topic").click()
        expect(page.get_by_text("Topic clicks is deleted.")).to_be_visible()
        assert broker.ask("GET", "/v1/topics/clicks").status == 404
        expect(page.get_by_role("link", name="clicks", exact=True)).to_have_count(0)
        expect(page.get_by_role("link", name="dlq.clicks")).to_be_visible()


def test_nobody_asks_for_a_topic_that_was_just_deleted(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    with Served(tmp_path) as broker:
        page = watch(f"http://127.0.0.1:{broker.port}/").page
        dialog = page.get_by_role("dialog")
        for name in ("one", "two", "three", "four"):
            broker.ask("POST", "/v1/topics", {"name": name})
            page.goto(f"http://127.0.0.1:{broker.port}/#/topic/{name}")
            page.get_by_role("button", name="Delete topic").click()
            dialog.get_by_role("textbox").fill(name)
            page.wait_for_timeout(1_100)  # a snapshot comes meanwhile; every second one would have the page refreshed
            dialog.get_by_role("button", name="Delete topic").click()
            expect(page.get_by_text(f"Topic {name} is deleted.")).to_be_visible()
