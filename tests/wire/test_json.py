"""One message as JSON, and lines of them."""

import base64
import json as stdlib
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import Refused
from cordwood.wire import json, message, ndjson
from cordwood.wire.intake import Limits, TooLarge, normalise
from cordwood.wire.produce import Produce
from cordwood.wire.run import Run

NOW_MS = 1_700_000_000_000
LIMITS = Limits()
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
blobs = (
    st.none() | st.binary(max_size=30) | st.just(bytes(range(256))) | st.just(b"\0" * 1000) | texts.map(str.encode)
)
documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def read(body: bytes | str | dict[str, Any]) -> Produce:
    if isinstance(body, dict):
        body = stdlib.dumps(body)
    return json.read(body.encode() if isinstance(body, str) else body, NOW_MS, LIMITS)


def only(produced: Produce, column: str) -> Any:
    return produced.records.batch.column(column).to_pylist()[0]


def lines(body: str | bytes) -> Produce:
    return ndjson.read(body.encode() if isinstance(body, str) else body, NOW_MS, LIMITS)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ('"text"', b"text"),
        ('""', b""),
        ("null", None),
        ('"null"', b"null"),
        ('"\\u0000\\ud83e\\udeb5"', "\0🪵".encode()),
        ('{ "a" : [1, 2.50, {"b": " x "}] }', b'{"a":[1,2.50,{"b":" x "}]}'),
        ("[ ]", b"[]"),
        ("1e2", b"1e2"),
        ("123456789012345678901234567890", b"123456789012345678901234567890"),
        ("true", b"true"),
        ("false", b"false"),
        ('{"a":1,"a":2}', b'{"a":1,"a":2}'),
    ],
)
def test_a_value_is_stored_as_its_text_or_its_compact_json(value: str, stored: bytes | None) -> None:
    assert only(read(f'{{"value": {value} }}'), "value") == stored
    assert lines(f'{{"value":{value}}}\n{{"value":"x"}}').records.batch.column("value").to_pylist() == [stored, b"x"]


@given(documents)
def test_any_document_comes_back_as_it_was(value: Any) -> None:
    stored = only(read({"value": value}), "value")
    if isinstance(value, str):
        assert stored == value.encode()
    elif value is None:
        assert stored is None
    else:
        assert stdlib.loads(stored) == value


def test_every_field_is_read() -> None:
    found = read(
        {
            "topic": "clicks",
            "key_base64": "/w==",
            "value_base64": "AP8=",
            "headers": {"a": "x", "b": {"base64": "/w=="}, "c": None, "d": ["1", {"base64": "Mg=="}], "e": ""},
            "partition": 2,
            "timestamp": 5,
            "deliver_at": 6,
            "expires_at": 7,
            "idempotency_key": "once",
            "producer_id": "p",
            "epoch": 3,
            "sequence": 9,
        }
    )
    assert (found.topic, found.producer_id, found.epoch, found.sequence) == ("clicks", "p", 3, 9)
    assert found.idempotency_keys == ["once"]
    assert found.records.partitions.to_pylist() == [2]
    assert (only(found, "key"), only(found, "value")) == (b"\xff", b"\0\xff")
    assert only(found, "headers") == [("a", b"x"), ("b", b"\xff"), ("c", None), ("d", b"1"), ("d", b"2"), ("e", b"")]
    for name, milliseconds in (("timestamp", 5), ("deliver_at", 6), ("expires_at", 7)):
        assert only(found, name).timestamp() == milliseconds / 1000


def test_a_delay_begins_now() -> None:
    assert only(read({"value": "x", "delay_ms": 5000}), "deliver_at").timestamp() * 1000 == NOW_MS + 5000


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "truncated"),
        ("[]", "Expected `object`"),
        ("{}", "exactly one of value and value_base64"),
        ('{"value":"a","value_base64":"YQ=="}', "exactly one of value and value_base64"),
        ('{"value":"a","colour":1}', "unknown field `colour`"),
        ('{"value":"a","key":1}', "key"),
        ('{"value":"a","key":"k","key_base64":"aw=="}', "only one of key"),
        ('{"value":"a","deliver_at":1,"delay_ms":1}', "only one of deliver_at"),
        ('{"value":"a","delay_ms":-1}', "delay_ms"),
        ('{"value":"a","timestamp":1.5}', "timestamp"),
        ('{"value":"a","timestamp":999999999999999999999}', "timestamp"),
        ('{"value":"a","partition":2147483648}', "partition"),
        ('{"value":"a","headers":{"a":1}}', "headers"),
        ('{"value":"a","headers":{"a":{"base65":"YQ=="}}}', "base65"),
        ('{"value_base64":"%%"}', "base64"),
        ('{"value":"a","value":"b"}', "comes twice"),
        ('{"value":"a","\\u0076alue":"b"}', "comes twice"),
        ('{"value":"a","key":"\\u0022","key":"x"}', "comes twice"),
        ('{"value":"a","partition":1,"partition":2}', "comes twice"),
        ('{"value":"a","partition":1,"partition":2,"key":"\\u0022\\u0022"}', "comes twice"),
        ('{"value":"a","headers":{"a":"1","a":"2"}}', "comes twice"),
        ('{"value":NaN}', "malformed"),
        ('{"value":Infinity}', "malformed"),
        ('{"value":1e999}', "out of range"),
        ('{"value":"\\ud800"}', ""),
        ('{"value":{"a":"\\udc00"}}', ""),
        ('{"key":"\\ud800x","value":"a"}', ""),
        ('{"value":"a\0b"}', "malformed"),
        ('{"value":"cut', "truncated"),
        ('{"value":"a"} {"value":"b"}', "trailing"),
        ('{"value":' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"value":' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}", "nested too deeply"),
        (b'{"value":"\xff"}', "byte 10 of the body is not UTF-8"),
        (b'{"value":{"a":"\xed\xa0\x80"}}', "not UTF-8"),
        (b'\xef\xbb\xbf{"value":"a"}', "malformed"),
    ],
)
def test_what_is_not_a_message_is_refused_in_one_sentence(body: str | bytes, words: str) -> None:
    for attempt in (read, lines):
        if body == "" and attempt is lines:
            continue
        with pytest.raises(Refused) as refusal:
            attempt(body)
        if attempt is read or "trailing" not in words:
            assert words in str(refusal.value)
        assert "\n" not in str(refusal.value)
        assert len(str(refusal.value)) < 400


def test_quotes_however_they_are_written_do_not_look_like_a_repeated_name() -> None:
    for key in ('"', '\\"', "\\u0022", '\\\\"', '"value":'):
        assert only(read({"value": {key: key}, "key": key, "headers": {key: key}}), "key") == key.encode()
    assert only(read('{"value":"a","key":"\\u0022\\\\u0022"}'), "key") == b'"\\u0022'
    assert only(read('{"value":"\\u0022\\\\u0022\\\\\\u0022"}'), "value") == b'"\\u0022\\"'


def test_a_body_over_the_limit_is_refused() -> None:
    limits = Limits(max_text_bytes=100, max_message_bytes=20)
    with pytest.raises(TooLarge, match="101 bytes"):
        json.read(b" " * 101, NOW_MS, limits)
    with pytest.raises(TooLarge, match="21 bytes of key"):
        json.decode(b'{"value":"%s"}' % (b"x" * 21), limits)
    json.decode(b'{"value":"%s"}' % (b"x" * 20), limits)


def test_messages_decoded_one_by_one_become_one_batch() -> None:
    bodies = [b'{"value":"a","key":"k"}', b'{"value":{"b":1},"delay_ms":1}', b'{"value":null,"key_base64":"/w=="}']
    found = message.records([json.decode(body, LIMITS) for body in bodies], NOW_MS, LIMITS).batch
    assert found.column("value").to_pylist() == [b"a", b'{"b":1}', None]
    assert found.column("key").to_pylist() == [b"k", None, b"\xff"]


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_accepted_or_refused(body: bytes) -> None:
    for attempt in (read, lines):
        with suppress(Refused):
            attempt(body)


@given(documents, st.data())
def test_any_change_of_a_message_is_accepted_or_refused(value: Any, data: st.DataObject) -> None:
    fields = {"value": value, "key": "a", "headers": {"b": ["c", {"base64": "AA=="}]}, "partition": 0, "delay_ms": 1}
    body = bytearray(stdlib.dumps(fields, ensure_ascii=data.draw(st.booleans())).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(body) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "insert", "double"]))
        if kind == "flip":
            body[place] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del body[place : place + data.draw(st.integers(1, 9))]
        elif kind == "insert":
            body[place:place] = data.draw(
                st.sampled_from([b"\n", b'"', b"\\", b"{", b"}", b",", b"\0", b"1e9", b"\xff"])
            )
        else:
            body += body[place:]
        body = body or bytearray(b" ")
    for attempt in (read, lines):
        with suppress(Refused):
            attempt(bytes(body))


def test_lines_are_messages_in_order_and_blank_lines_are_nothing() -> None:
    found = lines('\n{"value":"a"}\r\n\n  \t\n{"value":"b","partition":1}\n{"value":null}')
    assert found.records.batch.column("value").to_pylist() == [b"a", b"b", None]
    assert found.records.partitions.to_pylist() == [None, 1, None]


@pytest.mark.parametrize("body", ["", "\n", " \n\n"])
def test_no_lines_are_no_messages(body: str) -> None:
    assert len(lines(body).records) == 0


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ('{"value":"b","x":1}', "unknown field `x`"),
        ("{}", "exactly one of value"),
        ('{"value":"b"', "truncated"),
        ('{"value":"b"}{"value":"c"}', "trailing"),
        ('{"value":\n"b"}', "truncated"),
        ('{"value":"b","key":"c","key":"d"}', "comes twice"),
        ('{"value":1e999}', "out of range"),
        ('{"value":"b","topic":"other"}', "topic is another one"),
        ('{"value":"b","sequence":4}', "sequence belongs to the first"),
    ],
)
def test_a_line_at_fault_is_named_and_nothing_is_taken(second: str, words: str) -> None:
    with pytest.raises(Refused, match=words) as refusal:
        lines(f'\n{{"value":"a","topic":"t"}}\n\n{second}\n{{"value":"z"}}\n')
    assert str(refusal.value).startswith("line 4 ")


def test_a_line_that_is_too_large_is_named() -> None:
    with pytest.raises(TooLarge, match=r"line 3 .* 11 bytes"):
        ndjson.read(b'{"value":"a"}\n\n{"value":"%s"}\n' % (b"x" * 11), NOW_MS, Limits(max_message_bytes=10))
    with pytest.raises(TooLarge, match="3 messages"):
        ndjson.read(b'{"value":"a"}\n' * 3, NOW_MS, Limits(max_messages=2))


def test_what_all_lines_say_of_the_request_is_said_once() -> None:
    found = lines('{"value":"a","producer_id":"p","epoch":1,"sequence":7}\n{"value":"b","producer_id":"p"}')
    assert (found.topic, found.producer_id, found.epoch, found.sequence) == (None, "p", 1, 7)


def coded(name: str, content: bytes | None) -> dict[str, Any]:
    if content is None:
        return {name: None} if name == "value" else {}
    return {f"{name}_base64": base64.b64encode(content).decode()}


def plain(row: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in row:
        assert name not in row
        return base64.b64decode(row[f"{name}_base64"])
    return None if row[name] is None else row[name].encode()


@given(
    st.lists(
        st.tuples(blobs, blobs, st.dictionaries(texts, st.lists(blobs, min_size=1, max_size=2), max_size=2)),
        min_size=1,
        max_size=5,
    )
)
def test_what_goes_in_comes_out(
    found: list[tuple[bytes | None, bytes | None, dict[str, list[bytes | None]]]],
) -> None:
    def header(content: bytes | None) -> Any:
        return None if content is None else {"base64": base64.b64encode(content).decode()}

    body = "\n".join(
        stdlib.dumps(
            coded("key", key)
            | coded("value", value)
            | {"headers": {n: [header(c) for c in contents] for n, contents in pairs.items()}}
        )
        for key, value, pairs in found
    )
    written = ndjson.write(Run(lines(body).records.batch, 3, 10, 2))
    again = [stdlib.loads(line) for line in written.splitlines()]
    assert [(plain(row, "key"), plain(row, "value")) for row in again] == [(key, value) for key, value, _ in found]
    assert [row["offset"] for row in again] == list(range(10, 10 + len(found)))
    for row, (_, _, pairs) in zip(again, found, strict=True):
        read_back = read({"value": "x", "headers": row["headers"]}).records.batch
        expected = [(n, c) for n, contents in pairs.items() for c in contents]
        assert (read_back.column("headers").to_pylist()[0] if expected else []) == expected


def test_a_row_has_the_contracts_fields_in_order() -> None:
    batch = read({"value": "v", "key": "k", "timestamp": 5, "headers": {"a": "b"}}).records.batch
    assert ndjson.write(Run(batch, 1, 7, 2, ["why"])) == (
        b'{"partition":1,"offset":7,"attempts":2,"timestamp":5,"key":"k","value":"v",'
        b'"headers":{"a":"b"},"last_error":"why"}\n'
    )
    batch = read({"value_base64": "/w=="}).records.batch
    assert b'"key":null,"headers":{},"last_error":null,"value_base64":"/w=="}' in ndjson.write(Run(batch, 1, 7))


def test_rows_of_a_slice_are_its_own() -> None:
    whole = lines(
        "\n".join(stdlib.dumps({"value": str(n), "key": str(n), "headers": {"n": str(n)}}) for n in range(5))
    )
    rows = ndjson.rows(Run(whole.records.batch.slice(2, 2), 0, 2, [4, 5]))
    assert [(row.offset, row.value, row.key, row.headers, row.attempts) for row in rows] == [
        (2, "2", "2", {"n": "2"}, 4),
        (3, "3", "3", {"n": "3"}, 5),
    ]


def test_what_hides_behind_a_null_is_not_shown() -> None:
    names, values = pa.array(["a", "b"]), pa.array([b"shown", b"hidden"])
    offsets = pa.array([0, 1, 2], pa.int32())
    headers = pa.MapArray.from_arrays(offsets, names, values, mask=pa.array([False, True]))
    batch = normalise(pa.RecordBatch.from_pydict({"value": ["x", "y"], "headers": headers}), NOW_MS, LIMITS).batch
    assert [row.headers for row in ndjson.rows(Run(batch, 0, 0))] == [{"a": "shown"}, {}]
