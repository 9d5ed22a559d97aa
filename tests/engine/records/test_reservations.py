"""What victims still use of the room that is nominated in their place, against the same counted one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tutti.engine.records.nominations import VictimOverlap

ROWS, RESOURCES = 4, 2
AMOUNTS = st.lists(st.integers(0, 5), min_size=RESOURCES, max_size=RESOURCES)


@given(
    nominated=st.lists(AMOUNTS, min_size=ROWS, max_size=ROWS),
    victims=st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, ROWS - 1), AMOUNTS), min_size=1),
    gone=st.none() | st.lists(st.integers(0, 12)),
)
def test_what_is_in_use_is_counted_once_and_given_back_as_victims_go(nominated, victims, gone):
    overlap = VictimOverlap(
        np.arange(ROWS) * 10,
        np.array(nominated),
        np.array(list(victims)),
        np.array([row for row, _ in victims.values()]),
        np.array([uses for _, uses in victims.values()]),
    )

    def in_use(without):
        there = [(row, uses) for slot, (row, uses) in victims.items() if slot not in without]
        return [
            [min(nominated[row][one], sum(uses[one] for at, uses in there if at == row)) for one in range(RESOURCES)]
            for row in range(ROWS)
        ]

    before, after = np.array(in_use(())), np.array(in_use(victims if gone is None else gone))
    assert overlap.in_use().tolist() == before.tolist()
    assert (
        overlap.released(None if gone is None else np.array(gone, dtype=np.int64)).tolist() == (before - after).tolist()
    )
