"""Open ranges: runs of done messages above the floor."""

import numpy as np
import pytest

from bench.growth import open_ranges


@pytest.mark.parametrize(
    ("done", "ranges"),
    [
        ([], 0),
        ([0, 1, 2], 0),  # below the floor
        ([2], 1),
        ([0, 2, 4], 2),
        ([3, 4, 5, 9], 2),
        ([1, 3, 5, 7, 9], 5),
    ],
)
def test_a_range_is_open_when_there_is_a_hole_before_it(done: list[int], ranges: int) -> None:
    assert open_ranges(np.array(done, int), 10) == ranges
