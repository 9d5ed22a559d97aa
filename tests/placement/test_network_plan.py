"""Plans of an application that are begun greedily and made better are plans: of all pods, with room for each."""

from __future__ import annotations

from itertools import islice

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.placement.network_plan import PlanningProblem, plans


def problem(costs: list[int], free: list[int], wanted: list[int], outside: list[int]) -> PlanningProblem:
    """Three roles, of which the first talks to the second and that to the third and back, on six sites of two regions."""
    cost = np.full((6, 6), 40, dtype=np.int64)
    pairs = iter(costs)
    for region in (range(3), range(3, 6)):
        for one in region:
            for other in region:
                if one < other:
                    cost[one, other] = cost[other, one] = next(pairs)
    np.fill_diagonal(cost, 1)
    room = np.array([free] * 3, dtype=np.int64)
    return PlanningProblem(
        cost=cost,
        talks=np.array([[0, 1, 0], [1, 0, 1], [0, 0, 0]], dtype=np.int64),
        outside=np.array(outside, dtype=np.int64).reshape(3, 6),
        room=room,
        free=np.array([[one] for one in free], dtype=np.int64),
        request=np.ones((3, 1), dtype=np.int64),
        wanted=np.array(wanted, dtype=np.int64),
    )


def test_pods_that_are_not_there_are_not_swapped():
    """Costs of another region outweighed the mark of a pod that no site has: a plan with -1 pods, which nobody can be placed by."""
    asked = problem([6, 20, 11, 17, 20, 16], [4, 5, 4, 3, 4, 5], [4, 3, 2], [0] * 18)
    found = list(islice(plans(asked), 4))
    assert found
    assert all((plan >= 0).all() for plan in found)
    best = min(asked.total(plan) for plan in found)
    assert best == asked.total(found[0])
    assert best <= 100


numbers = st.integers(5, 60)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(numbers, min_size=6, max_size=6),
    st.lists(st.integers(1, 6), min_size=6, max_size=6),
    st.lists(st.integers(1, 9), min_size=3, max_size=3),
    st.lists(st.integers(0, 200), min_size=18, max_size=18),
)
def test_each_plan_has_all_pods_and_room_for_them(costs, free, wanted, outside):
    asked = problem(costs, free, wanted, outside)
    for plan in islice(plans(asked), 8):
        assert (plan >= 0).all()
        assert plan.sum(axis=1).tolist() == wanted
        assert asked.fits(plan)
