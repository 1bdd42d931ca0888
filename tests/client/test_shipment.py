"""What is sent as one request."""

import pyarrow as pa

from cordwood.client import packing
from cordwood.client.columns import batches_of
from cordwood.client.future import TableFuture
from cordwood.client.inlet import Inlet
from cordwood.client.lane import Lane
from cordwood.client.page import Sheet
from cordwood.client.parcel import Parcel, Take
from cordwood.client.shipment import Shipment
from cordwood.wire import arrow
from cordwood.wire.intake import Limits


def taken(*tables: dict[str, object], partitions: int = 4) -> Take:
    inlet = Inlet(TableFuture)
    for table in tables:
        inlet.put_sheet(Sheet(batches_of(table, 1_000), inlet.settling))
    return packing.pack(inlet.take(1_000, 1 << 30), partitions, 0, 1_000, 1 << 20)


def spread(*places: int) -> dict[str, object]:
    return {"value": [f"{n}" for n in range(len(places))], "partition": pa.array(places, "int32")}


def loaded(take: Take, epoch: int = 0) -> list[tuple[Lane, Parcel]]:
    """Return lanes, each of which has sent its number of messages before, with the parcels of a take."""
    found = []
    for number, parcels in take.parcels.items():
        lane = Lane(number, epoch)
        lane._next = 10 * number
        for parcel in parcels:
            lane.add(parcel)
            found.append((lane, parcel))
    return found


def shipped(*parts: tuple[Lane, Parcel]) -> list[Shipment]:
    """Return the requests that parcels become, each sent with the last one if it may be."""
    found: list[Shipment] = []
    for lane, parcel in parts:
        if not found or not found[-1].takes(lane, parcel):
            found.append(Shipment(lane, parcel))
    return found


def decoded(shipment: Shipment) -> list[tuple[int, int, str]]:
    shipment.encode()
    assert shipment.size == sum(map(len, shipment.pieces))
    records = arrow.read(b"".join(map(bytes, shipment.pieces)), 0, Limits()).records
    assert records.sequences is not None
    places = records.partitions.to_pylist()  # type: ignore[union-attr]
    values = [value.decode() for value in records.batch.column("value").to_pylist()]
    return list(zip(places, records.sequences.tolist(), values, strict=True))


def test_parcels_of_a_take_travel_together_with_their_numbers() -> None:
    (shipment,) = shipped(*loaded(taken(spread(3, 0, 3, 1))))
    assert decoded(shipment) == [(0, 0, "1"), (1, 10, "3"), (3, 30, "0"), (3, 31, "2")]
    assert shipment.numbers == "&epoch=0"


def test_a_part_of_a_take_is_sent_in_any_order() -> None:
    parts = loaded(taken(spread(3, 0, 3, 1, 2)))
    (shipment,) = shipped(parts[3], parts[0])
    assert decoded(shipment) == [(0, 0, "1"), (3, 30, "0"), (3, 31, "2")]


def test_a_parcel_by_itself_is_a_request_of_its_partition() -> None:
    ((lane, parcel),) = loaded(taken(spread(2, 2)))
    shipment = Shipment(lane, parcel)
    shipment.encode()
    assert shipment.numbers == "&partition=2&epoch=0&sequence=20"
    assert arrow.read(b"".join(map(bytes, shipment.pieces)), 0, Limits()).records.sequences is None


def test_several_tables_are_one_batch_in_the_order_of_their_rows() -> None:
    (shipment,) = shipped(*loaded(taken(spread(1, 0), spread(0, 1, 1))))
    assert decoded(shipment) == [(0, 0, "1"), (0, 1, "0"), (1, 10, "0"), (1, 11, "1"), (1, 12, "2")]


def test_what_is_not_alike_does_not_travel_together() -> None:
    one, other = loaded(taken(spread(0, 1))), loaded(taken(spread(2, 3)))
    assert [len(s.parts) for s in shipped(*one, *other)] == [2, 2], "two takes"
    parts = loaded(taken(spread(0, 1)))
    parts[1][1].epoch = 7
    assert [len(s.parts) for s in shipped(*parts)] == [1, 1], "two epochs"
    parts = loaded(taken(spread(0, 1, 2)))
    parts[1][0].alone = True
    assert [len(s.parts) for s in shipped(*parts)] == [1, 1, 1], "one that is to be alone"
    differ = loaded(taken({"value": ["a"], "key": ["k"]}, spread(1, 2)))
    assert all(len(s.parts) == 1 for s in shipped(*differ)), "tables with other columns"


def test_tables_that_became_one_batch_part_where_they_were_joined() -> None:
    take = taken(spread(0, 1), spread(0, 0, 1), spread(1, 0))
    parcel = take.parcels[0][0]
    Lane(0, 0).add(parcel)
    halves = parcel.halves()
    assert halves is not None
    whole = [values(one) for half in halves for one in (half.halves() or [half])]
    assert whole == [["0"], ["0", "1"], ["1"]]
    assert all(half.halves() is None for half in take.parcels[0])


def values(parcel: Parcel) -> list[str]:
    (batch,) = parcel.batches
    return [str(value, "utf-8") if isinstance(value, bytes) else value for value in batch.column("value").to_pylist()]
