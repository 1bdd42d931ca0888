"""What a consumer holds: handed out once, renewed until done, never forgotten."""

from cordwood.client.holdings import Holdings


def test_what_arrives_is_queued_then_out_then_acking_then_confirmed() -> None:
    holdings = Holdings()
    assert holdings.arrive(0, [(0, 5)]) == [(0, 5)]
    assert holdings.held() == {0: [(0, 5)]}
    assert holdings.hand(0, [(0, 5)]) == [(0, 5)]
    holdings.ack(0, [(1, 3)])
    assert holdings.held() == {0: [(0, 1), (3, 5)]}, "what is being acknowledged is not renewed"
    holdings.confirm(0, [(1, 3)])
    assert not holdings.acking[0]


def test_what_is_here_already_is_not_handed_out_again() -> None:
    holdings = Holdings()
    holdings.arrive(0, [(0, 10)])
    holdings.hand(0, [(0, 6)])
    holdings.ack(0, [(0, 2)])
    assert holdings.arrive(0, [(0, 12)]) == [(10, 12)], "queued, out and acking are all here"


def test_an_ack_that_was_confirmed_while_the_lease_was_under_way_is_remembered() -> None:
    holdings = Holdings()
    holdings.arrive(0, [(0, 2)])
    holdings.hand(0, [(0, 2)])
    holdings.asking()
    holdings.ack(0, [(0, 2)])
    holdings.confirm(0, [(0, 2)])
    assert holdings.arrive(0, [(0, 3)]) == [(2, 3)]
    holdings.answered()
    holdings.asking()
    assert holdings.arrive(0, [(0, 1)]) == [(0, 1)], "a later lease may bring it again: the group was sent back"


def test_each_lease_under_way_remembers_what_was_confirmed_since_it_began() -> None:
    holdings = Holdings()
    holdings.asking()
    holdings.arrive(0, [(0, 4)])
    holdings.hand(0, [(0, 4)])
    holdings.ack(0, [(0, 4)])
    holdings.confirm(0, [(0, 2)])
    holdings.asking()  # the next, while the answer to the first is still being read
    holdings.confirm(0, [(2, 4)])
    assert holdings.arrive(0, [(0, 5)]) == [(4, 5)], "the first began before all of them were confirmed"
    holdings.answered()
    assert holdings.arrive(0, [(0, 4)]) == [(0, 2)], "the second only before the last two were"


def test_what_was_lost_while_it_waited_is_not_handed_out() -> None:
    holdings = Holdings()
    holdings.arrive(0, [(0, 10)])
    holdings.drop_queued(0, [(3, 5)])
    assert holdings.hand(0, [(0, 10)]) == [(0, 3), (5, 10)]


def test_what_the_application_has_stays_with_it_when_its_lease_is_gone() -> None:
    holdings = Holdings()
    holdings.arrive(0, [(0, 4)])
    holdings.hand(0, [(0, 2)])
    holdings.drop_queued(0, [(0, 4)])
    assert holdings.held() == {0: [(0, 2)]}
    assert holdings.arrive(0, [(0, 4)]) == [(2, 4)], "and is not delivered to it a second time"


def test_partitions_are_kept_apart() -> None:
    holdings = Holdings()
    holdings.arrive(0, [(0, 1)])
    assert holdings.arrive(1, [(0, 1)]) == [(0, 1)]
