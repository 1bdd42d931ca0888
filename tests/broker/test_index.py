"""The index of a partition against a plain list of its pieces."""

from hypothesis import given
from hypothesis import strategies as st

from cordwood.broker.index import TIERED, Index, Place, Tiered
from cordwood.tier.descriptor import Descriptor

# (hole before it, count, bytes, latest timestamp) of each piece
Pieces = list[tuple[int, int, int, int]]
PIECES = st.lists(
    st.tuples(st.sampled_from((0, 0, 0, 3)), st.integers(1, 5), st.integers(0, 50), st.integers(0, 20)), max_size=12
)


class Plain:
    """The same as a dict: offset → (LSN, row), and what each piece was."""

    def __init__(self, pieces: Pieces):
        self.index = Index()
        self.where: dict[int, tuple[int, int]] = {}
        self.pieces: Pieces = []  # first, end, bytes, latest
        end = 0
        for lsn, (hole, count, size, latest) in enumerate(pieces):
            first = end + hole
            end = first + count
            self.index.append(first, count, lsn, 0, 10, size, latest)
            self.where.update({first + row: (lsn, 10 + row) for row in range(count)})
            self.pieces.append((first, end, size, latest))

    def found(self, places: list[Place]) -> dict[int, tuple[int, int]]:
        return {place.first + n: (place.lsn, place.row + n) for place in places for n in range(place.length)}


@given(PIECES, st.integers(0, 60), st.integers(0, 60))
def test_every_offset_is_found_where_it_was_put(pieces: Pieces, first: int, end: int) -> None:
    plain = Plain(pieces)
    places = list(plain.index.places(first, end))
    assert plain.found(places) == {o: where for o, where in plain.where.items() if first <= o < end}
    assert all(place.length > 0 for place in places)


@given(PIECES, st.integers(0, 60), st.integers(0, 25))
def test_a_time_finds_the_first_piece_that_has_something_so_late(pieces: Pieces, start: int, time_us: int) -> None:
    plain = Plain(pieces)
    late = [first for first, end, _, latest in plain.pieces if end > start and latest >= time_us]
    found = plain.index.since(time_us, start)
    assert (None if found is None else found.first) == (late[0] if late else None)


@given(PIECES, st.integers(0, 60))
def test_what_is_trimmed_is_forgotten_by_whole_pieces(pieces: Pieces, start: int) -> None:
    plain = Plain(pieces)
    total = plain.index.total_bytes
    plain.index.trim(start)
    kept = {o for first, end, _, _ in plain.pieces if end > start for o in range(first, end)}
    assert set(plain.found(list(plain.index.places(0, 1_000)))) == kept
    assert plain.index.total_bytes == total, "what was there before is still counted"
    lsns = [lsn for lsn, (_, end, _, _) in enumerate(plain.pieces) if end > start]
    assert plain.index.lowest_lsn() == (lsns[0] if lsns else None)


@given(PIECES, st.integers(0, 150))
def test_a_size_keeps_the_newest_pieces_that_fit_and_one_at_least(pieces: Pieces, size: int) -> None:
    plain = Plain(pieces)
    fitting = [
        first for at, (first, _, _, _) in enumerate(plain.pieces) if sum(p[2] for p in plain.pieces[at:]) <= size
    ]
    expected = None if not pieces else fitting[0] if fitting else plain.pieces[-1][0]
    assert plain.index.first_within(size) == expected


@given(PIECES, st.integers(0, 60))
def test_bytes_before_an_offset_rise_to_the_total(pieces: Pieces, offset: int) -> None:
    plain = Plain(pieces)
    low, high = plain.index.bytes_before(offset), plain.index.bytes_before(offset + 1)
    assert 0 <= low <= high <= plain.index.total_bytes
    for first, _, _, _ in plain.pieces:
        assert plain.index.bytes_before(first) == sum(p[2] for p in plain.pieces if p[0] < first)


def test_what_an_operator_gave_up_leaves_a_hole() -> None:
    plain = Plain([(0, 2, 1, 1), (0, 3, 1, 1), (0, 1, 1, 1)])
    assert plain.index.cut_lsns(1, 2) == [(2, 5)]
    assert sorted(plain.found(list(plain.index.places(0, 10)))) == [0, 1, 5]


@given(PIECES, PIECES)
def test_what_was_captured_does_not_change(pieces: Pieces, more: Pieces) -> None:
    plain = Plain(pieces)
    length, total, columns = plain.index.captured()
    before = [bytes(column[:length].tobytes()) for column in columns]
    end = plain.pieces[-1][1] if plain.pieces else 0
    for _, count, size, latest in more:
        plain.index.append(end, count, 99, 0, 0, size, latest)
        end += count
    plain.index.trim(end // 2)
    assert [bytes(column[:length].tobytes()) for column in columns] == before
    again = Index()
    again.extend(before)
    again.total_bytes = total
    assert plain.found(list(again.places(0, 1_000))) == plain.where


# In the tier


def tiered(first: int, end: int) -> Tiered:
    return Tiered(Descriptor("t", "aa", 0, first, end, 1, 0, end - first, 7), 100, 2)


def runs(pieces: Pieces) -> list[tuple[int, int]]:
    """Return the runs of neighbours among pieces, (first, end)."""
    found: list[tuple[int, int]] = []
    for first, end, _, _ in pieces:
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], end)
        else:
            found.append((first, end))
    return found


@given(PIECES, st.integers(1, 100))
def test_what_comes_next_into_the_tier_is_whole_pieces_without_a_gap(pieces: Pieces, most: int) -> None:
    plain = Plain(pieces)
    shipped: list[tuple[int, int]] = []
    while (found := plain.index.untiered(most)) is not None:
        first, end = found
        inside = [piece for piece in plain.pieces if first <= piece[0] < end]
        following = [piece for piece in plain.pieces if piece[0] == end]
        size = sum(piece[2] for piece in inside)
        assert plain.index.untiered_bytes == sum(piece[2] for piece in plain.pieces if piece[0] >= first)
        assert len(inside) == 1 or size <= most
        assert not following or size + following[0][2] > most
        plain.index.put(tiered(first, end))
        shipped.append((first, end))
    assert [bound for one in shipped for bound in one] == sorted(bound for one in shipped for bound in one)
    assert {o for first, end in shipped for o in range(first, end)} == set(plain.where)
    assert plain.index.lowest_lsn() is None


@given(PIECES)
def test_an_object_changes_neither_offsets_nor_bytes_nor_times(pieces: Pieces) -> None:
    plain, same = Plain(pieces), Plain(pieces)
    for first, end in runs(plain.pieces):
        assert plain.index.put(tiered(first, end)) == []
        assert plain.index.latest_us(first, end) == max(p[3] for p in plain.pieces if first <= p[0] < end)
        assert plain.index.bytes_before(first) == same.index.bytes_before(first)
        places = list(plain.index.places(first, end))
        assert [place.first for place in places] == list(range(first, end, 2)), "one for each row group"
        assert all(place.lsn == TIERED and place.tiered is not None for place in places)
    assert plain.index.total_bytes == same.index.total_bytes
    assert sorted(plain.found(list(plain.index.places(0, 1_000)))) == sorted(plain.where)


@given(PIECES, st.integers(0, 60))
def test_objects_below_the_start_go_with_their_messages(pieces: Pieces, start: int) -> None:
    plain = Plain(pieces)
    spans = runs(plain.pieces)
    for first, end in spans:
        plain.index.put(tiered(first, end))
    gone = plain.index.trim(start)
    assert [(one.first, one.end) for one in gone] == [(first, end) for first, end in spans if end <= start]
    assert [(one.first, one.end) for one in plain.index.tiered] == [span for span in spans if span[1] > start]


def test_an_object_replaces_a_run_of_objects() -> None:
    plain = Plain([(0, 2, 5, 1), (0, 3, 7, 9), (0, 1, 1, 1)])
    old = [tiered(0, 2), tiered(2, 5)]
    for one in old:
        plain.index.put(one)
    assert plain.index.put(tiered(0, 5)) == old
    assert [(one.first, one.end) for one in plain.index.tiered] == [(0, 5)]
    assert (plain.index.latest_us(0, 5), plain.index.bytes_before(5)) == (9, 12)


@given(PIECES, st.integers(0, 12))
def test_without_its_journal_a_partition_has_its_objects(pieces: Pieces, count: int) -> None:
    plain = Plain(pieces)
    kept = plain.pieces[:count]
    for first, end, _, _ in kept:
        plain.index.put(tiered(first, end))
    plain.index.only_tiered()
    assert sorted(plain.found(list(plain.index.places(0, 1_000)))) == [o for f, e, _, _ in kept for o in range(f, e)]
    assert plain.index.total_bytes == sum(piece[2] for piece in kept)
    assert plain.index.journal_first is None


@given(PIECES, st.sets(st.integers(0, 11)))
def test_objects_that_are_lost_take_their_bytes_along(pieces: Pieces, numbers: set[int]) -> None:
    plain = Plain(pieces)
    objects = [tiered(first, end) for first, end, _, _ in plain.pieces]
    for one in objects:
        plain.index.put(one)
    gone = [one for number, one in enumerate(objects) if number in numbers]
    plain.index.lose(gone)
    left = [piece for number, piece in enumerate(plain.pieces) if number not in numbers]
    assert [one.first for one in plain.index.tiered] == [piece[0] for piece in left]
    assert plain.index.total_bytes == sum(piece[2] for piece in left)
    for first, _, _, _ in left:
        assert plain.index.bytes_before(first) == sum(piece[2] for piece in left if piece[0] < first)
