"""Where there is space for the volumes of a pod, against the rule as it is written: place by place, node by node."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from tests.placement.storage import ZONE, capacity, claim, csi_driver, storage_class, using
from tests.placement.volume_scenes import cluster_of, said
from tutti.api.storage import CSIStorageCapacity

PLACES = st.lists(
    st.tuples(
        st.sampled_from([None, "0", "1Gi", "2Gi", "3Gi", "20Ei", "illegible"]),
        st.sampled_from([None, "1Gi", "3Gi"]),
        st.sampled_from([None, {}, {"matchLabels": {ZONE: "a"}}, {"matchLabels": {ZONE: "b"}}]),
    ),
    max_size=6,
)


@given(PLACES, st.lists(st.sampled_from(["1Gi", "2Gi", "3Gi", "4Gi", "10Ei"]), min_size=1, max_size=3))
def test_there_is_space_for_a_volume_where_one_place_has_enough_for_it(
    places: list[tuple[str | None, str | None, dict[str, dict[str, str]] | None]], sizes: list[str]
) -> None:
    cluster = cluster_of(storage_class(), csi_driver())
    for i, (size, largest, topology) in enumerate(places):
        more = {} if size is None else {"capacity": size}
        more |= {} if largest is None else {"maximumVolumeSize": largest}
        cluster.put_storage(capacity(f"c{i}", topology=topology, **more))
    claims = [f"d{i}" for i in range(len(sizes))]

    decision = said(
        cluster, *(claim(name, size=size) for name, size in zip(claims, sizes, strict=True)), **using(*claims)
    )

    book = cluster.nodes.volumes.book
    wanted = [book.claims["default", name].size or 0 for name in claims]
    rows = [
        row
        for row, labels in enumerate(cluster.nodes.labels)
        if all(any(_has(one, labels, size) for one in book.capacities("late")) for size in wanted)
    ]
    assert decision.rows.tolist() == rows


def _has(place: CSIStorageCapacity, labels: Mapping[str, str], size: int) -> bool:
    return place.node_topology is not None and place.node_topology.matches(labels) and place.largest >= size
