"""When those at the head of a queue start, by the known ends of running work."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.quota.estimate import End, Pods, Waiting, Way, starts
from tutti.quota.tree import Quota, QuotaTree

NOW = 1000.0
GPU = ("h100", "gpu")


def tree(**queues: tuple[str, int, int]) -> QuotaTree:
    """ClusterQueues by name: cohort, nominal quota of GPUs, and how many are used."""
    built = QuotaTree({name: (cohort, {GPU: Quota(nominal)}) for name, (cohort, nominal, _) in queues.items()}, {})
    for name, (_, _, used) in queues.items():
        built.add(name, {GPU: used})
    return built


def free(*gpus: int):
    return np.array([[one] for one in gpus], dtype=np.int64)


def end(after: float, gpus: int, *, queue: str = "q", node: int = 0) -> End:
    return End(NOW + after, queue, {GPU: gpus}, np.array([node]), np.array([[gpus]]))


def waits(count: int, each: int = 1, *, seconds: float | None = None, nodes=(True,), flavors=("h100",)) -> Waiting:
    ways = [Way({(flavor, "gpu"): count * each}, np.array(nodes)) for flavor in flavors]
    return Waiting("q", [Pods(count, np.array([each]), ways)], seconds)


def told(quota: QuotaTree, room, ends, *line: Waiting, strict: bool = True) -> list[float | None]:
    found = starts(NOW, quota, room, ends, line, strict=strict)
    return [None if at is None else at - NOW for at in found]


@pytest.mark.parametrize(
    ("used", "ends", "after"),
    # A queue of 8 GPUs on one node of 8; 6 are asked for.
    [
        (2, [], 0),
        (4, [(60, 2)], 60),
        (8, [(60, 2), (30, 2), (90, 2)], 90),
        (8, [(60, 2), (30, 2), (90, 4)], 90),
        (8, [(60, 8), (30, 2)], 60),
        (8, [(60, 5)], None),
        (8, [], None),
    ],
)
def test_a_gang_starts_when_enough_has_ended(used, ends, after):
    running = [end(*one) for one in ends]

    assert told(tree(q=("", 8, used)), free(8 - used), running, waits(6)) == [after]


def test_quota_alone_is_not_enough_where_no_node_has_room_for_a_pod():
    # Two GPUs are free in all after 30 s, one on each node; a pod of two needs one node.
    ends = [end(30, 1, node=0), end(60, 1, node=1), end(90, 1, node=0)]

    assert told(tree(q=("", 8, 4)), free(0, 0), ends, waits(1, 2, nodes=(True, True))) == [90]


def test_nodes_alone_are_not_enough_where_others_hold_the_quota():
    # The node is empty. Its quota is lent, and comes back with the second borrower.
    ends = [end(30, 0, node=0), End(NOW + 60, "other", {GPU: 4}, np.array([], dtype=int), np.zeros((0, 1), dtype=int))]

    assert told(tree(q=("all", 4, 0), other=("all", 4, 8)), free(8), ends, waits(4)) == [60]


def test_a_node_that_pods_may_not_be_on_does_not_count():
    ends = [end(30, 4, node=0), end(60, 4, node=1)]

    assert told(tree(q=("", 8, 8)), free(0, 0), ends, waits(4, nodes=(False, True))) == [60]


def test_the_first_flavor_that_has_both_quota_and_nodes_is_taken():
    two = QuotaTree({"q": ("", {GPU: Quota(4), ("a100", "gpu"): Quota(4)})}, {})
    two.add("q", {GPU: 4, ("a100", "gpu"): 4})
    ends = [
        End(NOW + 60, "q", {("h100", "gpu"): 4}, np.array([0]), np.array([[4]])),
        End(NOW + 30, "q", {("a100", "gpu"): 4}, np.array([1]), np.array([[4]])),
    ]
    ways = [Way({GPU: 4}, np.array([True, False])), Way({("a100", "gpu"): 4}, np.array([False, True]))]
    both = Waiting("q", [Pods(4, np.array([1]), ways)])

    assert told(two, free(0, 0), ends, both, both) == [30, 60]


def test_roles_share_the_room():
    # A leader and its workers ask for five of the same GPUs.
    way = np.array([True])
    roles = Waiting("q", [Pods(1, np.array([1]), [Way({GPU: 1}, way)]), Pods(4, np.array([1]), [Way({GPU: 4}, way)])])

    assert told(tree(q=("", 8, 8)), free(0), [end(30, 4), end(60, 1)], roles) == [60]


def test_in_a_strict_queue_nobody_starts_before_the_one_before():
    ends = [end(30, 2), end(60, 6)]

    assert told(tree(q=("", 8, 8)), free(0), ends, waits(8), waits(2), strict=True) == [60, None]
    assert told(tree(q=("", 8, 8)), free(0), ends, waits(6), waits(2), strict=True) == [60, 60]


def test_in_any_other_queue_whoever_fits_first_starts_first_and_delays_the_others():
    ends = [end(30, 2), end(60, 6)]

    assert told(tree(q=("", 8, 8)), free(0), ends, waits(8), waits(2), strict=False) == [None, 30]
    assert told(tree(q=("", 8, 8)), free(0), ends, waits(6), waits(2), strict=False) == [60, 30]


def test_what_starts_gives_back_in_turn_when_its_own_time_is_over():
    ends = [end(30, 2), end(60, 6)]

    assert told(tree(q=("", 8, 8)), free(0), ends, waits(8), waits(2, seconds=100), strict=False) == [130, 30]
    assert told(tree(q=("", 8, 8)), free(0), ends, waits(8, seconds=50), waits(8, seconds=50), waits(8)) == [
        60,
        110,
        160,
    ]


def test_without_a_queue_room_is_all_that_counts():
    pods = Waiting("", [Pods(4, np.array([1]), [Way({}, np.array([True]))])])

    assert told(tree(), free(0), [end(30, 4, queue="")], pods) == [30]


def test_who_asks_for_nothing_starts_at_once():
    assert told(tree(q=("", 8, 8)), free(0), [end(30, 4)], Waiting("q", [])) == [0]


def brute_force(quota: int, ends, line, *, strict: bool) -> list[float | None]:
    """One node, one queue: go through time, and start whoever may and fits."""
    left = quota - sum(gpus for _, gpus in ends)
    events = list(ends)
    out: list[float | None] = [None] * len(line)
    at = 0.0
    while True:
        for index, (gpus, seconds) in enumerate(line):
            if out[index] is None and gpus <= left:
                out[index], left = at, left - gpus
                if seconds is not None:
                    events.append((at + seconds, gpus))
            elif out[index] is None and strict:
                break
        if not events:
            return out
        at = min(time for time, _ in events)
        left += sum(gpus for time, gpus in events if time == at)
        events = [one for one in events if one[0] != at]


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), max_size=5),
    st.lists(st.tuples(st.integers(1, 10), st.none() | st.integers(1, 9)), max_size=4),
    st.integers(0, 4),
    st.booleans(),
)
def test_it_agrees_with_going_through_time_step_by_step_and_leaves_the_tree_as_it_was(ends, line, spare, strict):
    used = sum(gpus for _, gpus in ends)
    quota = tree(q=("all", used + spare, used))
    before = copy.deepcopy({node.name: node.usage for node in (quota.queues["q"], quota.queues["q"].root())})

    found = told(
        quota,
        free(spare),
        [end(after, gpus) for after, gpus in ends],
        *(waits(gpus, seconds=seconds) for gpus, seconds in line),
        strict=strict,
    )

    assert found == brute_force(used + spare, ends, line, strict=strict)
    now = {node.name: node.usage for node in (quota.queues["q"], quota.queues["q"].root())}
    assert {n: {k: v for k, v in u.items() if v} for n, u in now.items()} == {
        n: {k: v for k, v in u.items() if v} for n, u in before.items()
    }
