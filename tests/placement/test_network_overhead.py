"""What the network costs, counted at once, is what it comes to one by one; and nothing that is asked wraps round."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tutti.api.network import MOST_BANDWIDTH, Dependency
from tutti.cluster.network import Peers
from tutti.cluster.network_places import MOST_TRAFFIC, NO_LINK, LinkName, Places, sum_by_link, traffic
from tutti.placement.plugins.network_overhead import LinkRoom, Placed, Tally

PLACES = 4
ROWS = 6
LIMIT = st.integers(0, 5)
PODS = st.dictionaries(st.integers(0, ROWS - 1), st.integers(1, 3), min_size=1)
PEERS = st.lists(st.tuples(st.booleans(), LIMIT, PODS), max_size=6)
MATRIX = st.lists(st.integers(0, 5), min_size=PLACES**2, max_size=PLACES**2)
TRUTHS = st.lists(st.booleans(), min_size=PLACES**2, max_size=PLACES**2)


def places(cost: list[int], said: list[bool], codes: list[int]) -> Places:
    """Four places, of which the last is nowhere, with one link between any two."""
    shape, same = (PLACES, PLACES), np.eye(PLACES, dtype=bool)
    nowhere = np.arange(PLACES) == PLACES - 1
    costs = np.where(same, 1, np.array(cost).reshape(shape))
    link = np.where(same, NO_LINK, 0)
    links = [LinkName("zone", "a", "b", MOST_BANDWIDTH)]
    return Places(np.array(codes), costs, np.array(said).reshape(shape), same, nowhere, link, links)


def peer(is_needed: bool, limit: int, pods: dict[int, int], bandwidth: int = 0) -> Placed:
    rows, many = np.array(list(pods), dtype=np.int64), np.array(list(pods.values()), dtype=np.int64)
    return Peers("w", Dependency("w", limit, bandwidth), is_needed), rows, many


def of_two(there: Places, ends: tuple[int, int], limit: int) -> tuple[int, int, int]:
    """Cost, satisfied and violated from one place to another."""
    cost = int(there.cost[ends])
    if there.is_nowhere[ends[1]]:
        return cost, 0, 1
    if there.is_same[ends]:
        return cost, 1, 0
    return (cost, int(cost <= limit), int(cost > limit)) if there.is_said[ends] else (cost, 0, 0)


@examples(100)
@given(PEERS, MATRIX, TRUTHS, st.lists(st.integers(0, PLACES - 1), min_size=ROWS, max_size=ROWS))
def test_a_tally_of_all_peers_is_what_each_pair_comes_to(peers, cost, said, codes):
    """As NetworkOverhead goes from pod to pod (scheduler-plugins 903da7df, checkMaxNetworkCostRequirements)."""
    there = places(cost, said, codes)
    wanted = np.zeros((3, ROWS), dtype=np.int64)
    for is_needed, limit, pods in peers:
        for row, here in enumerate(codes):
            for other, many in pods.items():
                ends = (here, codes[other]) if is_needed else (codes[other], here)
                wanted[:, row] += many * np.array((0, 1, 0) if row == other else of_two(there, ends, limit))
    tally = Tally.of([peer(*one) for one in peers], there)
    assert (np.stack([tally.cost, tally.satisfied, tally.violated]) == wanted).all()
    assert tally.pairs == sum(sum(pods.values()) for _, _, pods in peers)


@examples(100)
@given(
    st.lists(st.tuples(st.booleans(), PODS, st.integers(0, 5)), max_size=6),
    st.lists(st.integers(NO_LINK, 2), min_size=PLACES**2, max_size=PLACES**2),
    st.lists(st.integers(0, 20), min_size=3, max_size=3),
    st.lists(st.integers(0, PLACES - 1), min_size=ROWS, max_size=ROWS),
    st.lists(st.integers(0, ROWS - 1), max_size=2),
)
def test_links_have_the_room_that_each_pair_leaves_them(peers, link, used, codes, added):
    between = np.array(link).reshape(PLACES, PLACES)
    names = [LinkName("zone", str(one), "", 30) for one in range(3)]
    there = places([1] * PLACES**2, [True] * PLACES**2, codes)
    there = dataclasses.replace(there, link=between, links=names)
    asked = np.zeros((ROWS, 3), dtype=np.int64)
    for is_needed, pods, bandwidth in peers:
        for row, here in enumerate(codes):
            for other, many in pods.items():
                ends = (here, codes[other]) if is_needed else (codes[other], here)
                if between[ends] != NO_LINK:
                    asked[row, between[ends]] += many * bandwidth
    links = LinkRoom.of([peer(one, 0, pods, most) for one, pods, most in peers], there, np.array(used))
    left = 30 - np.array(used)
    for row in added:
        links.add(row)
        left = left - asked[row]
    room = np.where(asked > 0, np.maximum(left, 0) // np.maximum(asked, 1), MOST_TRAFFIC).min(axis=1)
    assert links.room().tolist() == room.tolist()
    out = np.logical_or.reduce([one.rows for one in links.rejections()] or [np.zeros(ROWS, dtype=bool)])
    assert out.tolist() == ((asked > 0) & (asked > left)).any(axis=1).tolist()


def test_what_is_kept_of_links_goes_by_whom_pods_talk_to_and_not_by_all_that_there_are():
    many = 200
    link = np.arange(many**2).reshape(many, many)
    each = np.zeros(many, dtype=bool)
    names = [LinkName("zone", "a", "b", 10)] * many**2
    there = Places(np.arange(many), link, link >= 0, np.eye(many, dtype=bool), each, link, names)
    talked_to = [peer(True, 0, {7: 2}, 3), peer(False, 0, {9: 1}, 1)]
    links = LinkRoom.of(talked_to, there, np.zeros(many**2, dtype=np.int64))
    assert len(links.at) == len(links.link) == len(links.amount) == 2 * many


def test_no_link_has_room_for_what_more_pods_ask_than_can_be_counted():
    there = places([1] * PLACES**2, [True] * PLACES**2, [0, 1])
    pods = np.array([100_000, 0, 0, 0])
    assert sum_by_link(there, [traffic(there, pods, pods[::-1], MOST_BANDWIDTH)]).tolist() == [MOST_TRAFFIC]
    peers = [peer(is_needed, 0, {0: 100_000}, MOST_BANDWIDTH) for is_needed in (True, False)] * 256
    links = LinkRoom.of(peers, there, np.zeros(1, dtype=np.int64))
    assert links.amount[links.at == 1].tolist() == [MOST_TRAFFIC]
    assert links.room().tolist() == [MOST_TRAFFIC, 0]
