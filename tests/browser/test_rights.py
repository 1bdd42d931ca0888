"""A token with few rights: it is shown what it may see, and told which right it lacks for the rest."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Watched, expect
from tests.real.served import Served, until

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as found:
        found.create("shop.orders", 2)
        found.create("secret")
        found.send("shop.orders", "oak")
        assert found.ask("PATCH", "/v1/groups/shop.orders/mailer", {}).status == 200
        yield found


def come(broker: Served, data: Path, watch: Callable[..., Watched], *rights: str) -> tuple[Watched, Any]:
    """Open the overview with a new token that has these rights."""
    command = [sys.executable, "-m", "cordwood", "token", "create", "shop", *rights, "--data", str(data), "--json"]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    until(lambda: broker.ask("GET", "/v1/topics").status == 401, "the broker wants a token")
    watched = watch("about:blank")
    watched.allow("status of 401")
    page = watched.page
    page.goto(f"http://127.0.0.1:{broker.port}/")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Token").fill(json.loads(made.stdout)["token"])
    dialog.get_by_role("button", name="Use token").click()
    expect(page.get_by_role("link", name="shop.orders").first).to_be_visible()
    expect(page.get_by_role("link", name="secret")).to_have_count(0)
    return watched, page


def test_whoever_may_only_produce_sees_the_partitions(
    tmp_path: Path, broker: Served, watch: Callable[..., Watched]
) -> None:
    watched, page = come(broker, tmp_path, watch, "--produce", "shop")
    refused: list[str] = []
    page.on("response", lambda answer: answer.status == 403 and refused.append(answer.url))
    watched.allow("status of 403")
    page.get_by_role("link", name="shop.orders").click()
    expect(page.get_by_role("table", name="Partitions of shop.orders")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("lacks the right to consume for the topic 'shop.orders'. Use a")
    page.wait_for_timeout(5_000)  # in which it is refreshed
    assert len(refused) == 1, "it is not asked for again what was refused"


def test_whoever_may_only_consume_cannot_delete(
    tmp_path: Path, broker: Served, watch: Callable[..., Watched]
) -> None:
    watched, page = come(broker, tmp_path, watch, "--consume", "shop")
    page.get_by_role("link", name="shop.orders").first.click()
    expect(page.get_by_role("article", name="Group mailer")).to_be_visible()
    page.get_by_role("button", name="Delete topic").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("shop.orders")
    watched.allow("status of 403")
    dialog.get_by_role("button", name="Delete topic").click()
    expect(dialog.get_by_role("alert")).to_contain_text("the token 'shop' lacks admin for the topic 'shop.orders'.")
    page.keyboard.press("Escape")
    expect(page.get_by_role("cell", name="oak")).to_be_visible()
