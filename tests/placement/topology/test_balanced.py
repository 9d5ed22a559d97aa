"""The balanced choice of domains, by the worked numbers of Kueue (tas_cache_test.go, "balanced placement", 0.20)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.placement.topology.domains import placed
from tutti.placement.topology.balancing import least_subset
from tutti.placement.topology.request import LevelRequest, Slice, Together


def near(level: int, *slices: tuple[int, int]) -> LevelRequest:
    told = tuple(Slice(str(at), size) for at, size in slices)
    return LevelRequest(Together.PREFERRED, str(level), told, balanced=True)


TWO_BLOCKS = {"b/1/1/x1": 18, "b/1/2/x2": 8, "b/2/3/x3": 15, "b/2/4/x4": 9, "b/2/4/x5": 7}
CASES = [
    ("basic", {"b/1/x1": 15, "b/2/x2": 15}, 25, near(1), {"x1": 13, "x2": 12}),
    ("the best set of domains", {"b/r/x1": 15, "b/r/x2": 13, "b/r/x3": 10}, 23, near(1), {"x1": 12, "x2": 11}),
    (
        "the best set of domains, with slices",
        {"b/r/x1": 20, "b/r/x2": 15, "b/r/x3": 10},
        25,
        near(1, (2, 5)),
        {"x2": 15, "x3": 10},
    ),
    (
        "the right block",
        {"1/1/x1": 20, "1/1/x2": 10, "2/2/x3": 15, "2/2/x4": 15},
        22,
        near(1),
        {"x3": 11, "x4": 11},
    ),
    (
        "one block only",
        {"1/1/x1": 14, "1/1/x2": 11, "2/2/x3": 15, "2/2/x4": 10},
        25,
        near(1),
        {"x1": 14, "x2": 11},
    ),
    (
        "rather one rack than two",
        {"b/1/x1": 15, "b/2/x2": 15, "b/3/x3": 15, "b/3/x4": 15},
        25,
        near(1, (2, 5)),
        {"x3": 15, "x4": 10},
    ),
    ("slices two levels below", TWO_BLOCKS, 20, near(1, (3, 2)), {"x3": 10, "x4": 8, "x5": 2}),
    ("slices one level below", TWO_BLOCKS, 20, near(1, (2, 2)), {"x3": 10, "x4": 3, "x5": 7}),
    (
        "slices in racks that are leaves",
        {"b/1/r1": 18, "b/1/r2": 8, "b/2/r3": 15, "b/2/r4": 15},
        20,
        near(1, (2, 2)),
        {"r3": 10, "r4": 10},
    ),
    (
        "slices on the same level",
        {"b/1/x1": 15, "b/1/x2": 13, "b/1/x3": 10, "b/2/x4": 20, "b/2/x5": 8},
        22,
        near(2, (2, 2)),
        {"x2": 12, "x3": 10},
    ),
    (
        "the lowest level",
        {"b/1/x1": 20, "b/1/x2": 8, "b/2/x3": 15, "b/2/x4": 13, "b/2/x5": 10},
        22,
        near(2),
        {"x3": 11, "x4": 11},
    ),
    (
        "the more even rack, the second",
        {"b/1/x1": 10, "b/1/x2": 5, "b/2/x3": 5, "b/2/x4": 5, "b/2/x5": 5},
        15,
        near(1),
        {"x3": 5, "x4": 5, "x5": 5},
    ),
    (
        "the more even rack, the first",
        {"b/1/x1": 8, "b/1/x2": 8, "b/1/x3": 8, "b/2/x4": 16, "b/2/x5": 8},
        24,
        near(1),
        {"x1": 8, "x2": 8, "x3": 8},
    ),
    (
        "the highest level",
        {"1/x1": 21, "1/x2": 9, "2/x3": 11, "2/x4": 10, "2/x5": 10},
        23,
        near(0),
        {"x1": 12, "x3": 11},
    ),
    (
        "what is left without the small ones",
        {f"1/{1 + i // 2}/x{i}": 5 for i in range(4)}
        | {"2/3/x5": 10, "2/3/x6": 4, "2/3/x7": 4, "2/3/x8": 4, "2/4/x9": 5, "2/5/x10": 5},
        20,
        near(1),
        {"x0": 5, "x1": 5, "x2": 5, "x3": 5},
    ),
]
LED = [
    ("a leader", {"b/r/x1": 20, "b/r/x2": 15, "b/r/x3": 12}, 25, near(1, (2, 5)), 1, {"x2": 15, "x3+": 10}),
    ("no room is lost", {"b/r/x1": 6, "b/r/x2": 5}, 10, near(1), 1, {"x1+": 5, "x2": 5}),
    ("room for the leader on one node only", {"b/r/x1": 7, "b/r/x2": 5}, 10, near(1), 1, {"x1+": 5, "x2": 5}),
    (
        "not balanced where the leader would leave too little",
        {"1/1/x1": 3, "1/2/x2": 3, "1/3/x3": 8, "2/1/x4": 11},
        7,
        near(0),
        5,
        {"x1": 3, "x2": 1, "x3+": 3},
    ),
]


@pytest.mark.parametrize(("name", "rooms", "count", "asked", "expected"), CASES, ids=[case[0] for case in CASES])
def test_balanced_as_worked_out_upstream(name, rooms, count, asked, expected):
    assert placed(rooms, count, asked) == expected, name


@pytest.mark.parametrize(("name", "rooms", "count", "asked", "leader", "expected"), LED, ids=[case[0] for case in LED])
def test_balanced_with_a_leader(name, rooms, count, asked, leader, expected):
    assert placed(rooms, count, asked, leader=leader) == expected, name


def test_what_cannot_be_balanced_is_placed_all_the_same():
    assert placed({"1/x1": 3, "2/x2": 3}, 5, near(1)) == {"x1": 3, "x2": 2}


def sums_of(plain, led, count):
    """What so many numbers can add up to; one of them leads, if any do, and a 0 counts for nothing else."""
    for chosen in itertools.combinations(range(len(plain)), count):
        total = sum(plain[i] for i in chosen)
        if led is None and all(plain[i] for i in chosen):
            yield total
        heads = [i for i in chosen if led and led[i] >= 0 and all(plain[j] for j in chosen if j != i)]
        yield from (total - plain[i] + led[i] for i in heads)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=7), st.integers(1, 20), st.integers(1, 4), st.data())
def test_the_smallest_set_is_found_where_there_is_one(plain, needed, count, data):
    led = data.draw(st.none() | st.tuples(*(st.integers(-1, one) for one in plain)))
    found = least_subset(np.array(plain), None if led is None else np.array(led), needed, count)
    assume(not any(total >= needed for fewer in range(count) for total in sums_of(plain, led, fewer)))
    least = min((total for total in sums_of(plain, led, count) if total >= needed), default=None)
    if least is None:
        assert found is None
        return
    total = sum(plain[i] for i in found)
    options = [total] if led is None else [total - plain[i] + led[i] for i in found if led[i] >= 0]
    assert len(set(found.tolist())) == count
    assert least in options
