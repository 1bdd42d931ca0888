"""Spark and a broker that asks for a token, over TLS that only a file of the driver's trusts."""

from pathlib import Path
from typing import Any

import pytest

from cordwood import Client, embedded
from cordwood.spark.options import read_options, write_options
from tests.certificates import make_pair
from tests.server.tokens import token_of


def test_the_authority_travels_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = make_pair(tmp_path)
    text = Path(pair.cert).read_text()
    asked = {"endpoint": "https://h:1", "subscribe": "a", "ca": pair.cert}
    assert read_options(asked).ca == text
    assert read_options({**asked, "ca": text}).ca == text
    monkeypatch.setenv("CORDWOOD_CA", pair.cert)
    assert write_options({"endpoint": "https://h:1", "topic": "a"}).ca == text
    assert write_options({"endpoint": "http://h:1", "topic": "a"}).ca is None


def test_rows_go_through_a_locked_door_and_only_with_the_right_for_it(spark: Any, tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    data = tmp_path / "data"
    ops, shop = (
        token_of(data, name, *rights)["Authorization"].removeprefix("Bearer ")
        for name, rights in (("ops", ("admin:",)), ("shop", ("produce:orders", "consume:orders")))
    )
    with embedded(data, tls_cert=pair.cert, tls_key=pair.key) as broker:
        with Client(broker.endpoint, token=ops, ca=pair.cert) as client:
            client.create_topic("orders")
            client.create_topic("other")
        shown = {"endpoint": broker.endpoint, "token": shop, "ca": pair.cert}
        rows = spark.createDataFrame([("a",), ("b",)], "value string")
        rows.write.format("cordwood").options(**shown, topic="orders").mode("append").save()
        found = spark.read.format("cordwood").options(**shown, subscribe="orders").load()
        assert sorted(bytes(row.value) for row in found.collect()) == [b"a", b"b"]
        with pytest.raises(Exception, match="lacks any right for the topic 'other'"):
            spark.read.format("cordwood").options(**shown, subscribe="other").load().count()
