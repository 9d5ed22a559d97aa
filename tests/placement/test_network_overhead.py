"""What the network costs, counted at once, is what it comes to one by one; and nothing that is asked wraps round."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tutti.api.network import MOST_BANDWIDTH, Dependency
from tutti.cluster.network import Peers
from tutti.cluster.network_places import MOST_TRAFFIC, NO_LINK, LinkName, Places, traffic
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


def test_no_link_has_room_for_what_more_pods_ask_than_can_be_counted():
    there = places([1] * PLACES**2, [True] * PLACES**2, [0, 1])
    pods = np.array([100_000, 0, 0, 0])
    assert traffic(there, pods, pods[::-1], MOST_BANDWIDTH).tolist() == [MOST_TRAFFIC]
    peers = [peer(is_needed, 0, {0: 100_000}, MOST_BANDWIDTH) for is_needed in (True, False)] * 256
    links = LinkRoom.of(peers, there, np.zeros(1, dtype=np.int64))
    assert links.asked[1].tolist() == [MOST_TRAFFIC]
    assert links.room().tolist() == [MOST_TRAFFIC, 0]
