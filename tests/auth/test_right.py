"""What a grant covers."""

import pytest

from cordwood.auth.right import Access, Grant, Right


def access(*grants: str) -> Access:
    return Access(Grant(Right(right), prefix) for right, _, prefix in (grant.partition(":") for grant in grants))


@pytest.mark.parametrize(
    ("grant", "topic", "covered"),
    [
        ("produce:orders", "orders", True),
        ("produce:orders", "orders-eu", True),
        ("produce:orders", "orders/eu", True),
        ("produce:orders", "order", False),
        ("produce:orders", "reorders", False),
        ("produce:orders", "Orders", False),
        ("produce:orders/", "orders", False),
        ("produce:orders/", "orders/eu", True),
        ("produce:", "anything", True),
        ("consume:orders", "orders", False),
        ("admin:orders", "orders", True),
        # Dead letters are of the topic they came from.
        ("produce:orders", "dlq.orders", True),
        ("produce:", "dlq.orders", True),
        ("produce:dlq.", "dlq.orders", True),
        ("produce:dlq.", "orders", False),
        ("produce:dlq.orders", "dlq.orders-eu", True),
        ("produce:dlq.orders", "dlq.shop", False),
        ("produce:d", "dlq.orders", False),
        ("produce:d", "data", True),
        ("produce:d", "dlq.data", True),
        ("produce:dlq", "dlq.orders", False),
        ("produce:d", "dlq.dlq.orders", False),
        ("produce:orders", "dlq.dlq.orders", True),
    ],
)
def test_a_grant_covers_topics_that_begin_like_it_and_their_dead_letters(
    grant: str, topic: str, covered: bool
) -> None:
    assert access(grant).may(Right.PRODUCE, topic) is covered
    assert access("consume:zzz", grant, "admin:yyy").may(Right.PRODUCE, topic) is covered


def test_any_right_is_enough_to_see_a_topic() -> None:
    held = access("produce:a", "consume:b", "admin:c")
    assert [held.may(None, topic) for topic in "abcd"] == [True, True, True, False]


def test_admin_of_a_topic_may_do_all_with_it_and_nothing_with_others() -> None:
    held = access("admin:a")
    assert all(held.may(right, "a") for right in Right)
    assert not any(held.may(right, "b") for right in Right)


def test_only_an_empty_prefix_is_everything() -> None:
    assert access("admin:").everywhere == set(Right)
    assert access("consume:").everywhere == {Right.CONSUME}
    assert access("admin:a").everywhere == set()
    assert access().everywhere == set()
    assert not access().may(None, "a")
