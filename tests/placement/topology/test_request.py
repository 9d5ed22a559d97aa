"""What may be asked of a topology."""

from __future__ import annotations

import pytest

from tests.placement.topology.test_assignment import LEVELS, cluster_of, near, pod_class, where
from tutti.api.kinds.flavors import HOSTNAME
from tutti.placement.gang import Ask
from tutti.placement.topology.request import LevelRequest, Slice, Together, sized_request


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (LevelRequest(Together.REQUIRED, "room"), "the topology has no level room"),
        (LevelRequest(slices=(Slice("rack", 0),)), "slices of 0 pods cannot be; give a size of 1 or more"),
        (
            LevelRequest(Together.REQUIRED, HOSTNAME, (Slice("rack", 2),)),
            f"slices cannot be kept in rack, which is wider than {HOSTNAME}",
        ),
        (
            LevelRequest(slices=(Slice("rack", 4), Slice(HOSTNAME, 3))),
            "slices of 4 pods cannot be divided into slices of 3",
        ),
        (
            LevelRequest(slices=(Slice("rack", 4), Slice("block", 2))),
            "slices in block must be within those in rack",
        ),
    ],
)
def test_a_request_that_cannot_be_met_anywhere_says_why(asked, message):
    assert sized_request(asked, LEVELS, 4) == message


@pytest.mark.parametrize(
    ("mode", "level", "count", "nodes"),
    [
        (Together.ANYWHERE, "", 10, {"x1": 2, "x2": 4, "x3": 2, "x4": 2}),  # the fullest nodes first
        (Together.PREFERRED, "rack", 12, {"x0": 6, "x2": 4, "x4": 2}),  # the widest, and the tightest last
    ],
)
def test_slices_of_two_as_kueue_places_them(mode, level, count, nodes):
    # Kueue, KEP-2724: nodes with room for 6, 5, 4, 3 and 2 pods
    cluster = cluster_of({f"b/r/x{index}": room for index, room in enumerate((6, 5, 4, 3, 2))})
    asked = near(level, mode, slices=(Slice(HOSTNAME, 2),))
    assert where(cluster, Ask(pod_class(cluster), count, topology=asked)) == nodes
