"""Which free volumes the claims of a pod get on each node, against the rule as it is written: node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.placement.scenes import node
from tests.placement.storage import HOSTNAME, ZONE, storage_class, volume
from tutti.api.selectors import LabelSelector
from tutti.api.storage import PersistentVolume
from tutti.cluster.cluster import Cluster
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.volumes import UnboundClaim
from tutti.placement.plugins.static_volumes import StaticVolumes
from tutti.placement.plugins.volume_shelves import NONE

NODES = 20
HOSTS = st.lists(st.sampled_from([f"n{i:02d}" for i in range(5)] + ["unknown"]), min_size=1, max_size=3)
ZONES = st.lists(st.sampled_from(["za", "zb", "zc"]), min_size=1, max_size=2)
EXPRESSIONS = st.one_of(
    st.builds(lambda values: {"key": HOSTNAME, "operator": "In", "values": values}, HOSTS),
    st.builds(lambda values: {"key": ZONE, "operator": "In", "values": values}, ZONES),
    st.builds(lambda values: {"key": HOSTNAME, "operator": "NotIn", "values": values}, HOSTS),
    st.builds(lambda value: {"key": "number", "operator": "Gt", "values": [str(value)]}, st.integers(0, NODES)),
    st.sampled_from([{"key": ZONE, "operator": "Exists"}, {"key": ZONE, "operator": "DoesNotExist"}]),
)
FIELDS = st.builds(lambda name: [{"key": "metadata.name", "operator": "In", "values": name}], HOSTS)
TERMS = st.fixed_dictionaries({"matchExpressions": st.lists(EXPRESSIONS, max_size=2)}, optional={"matchFields": FIELDS})
WHERE = st.one_of(
    st.none(),
    st.builds(
        lambda terms: {"required": {"nodeSelectorTerms": terms}},
        st.one_of(EXPRESSIONS.map(lambda one: [{"matchExpressions": [one]}]), st.lists(TERMS, min_size=1, max_size=2)),
    ),
)
SIZES = st.integers(1, 3)
VOLUMES = st.lists(
    st.tuples(SIZES, WHERE, st.sampled_from(["", "a"]), st.sampled_from(["Available", "Bound"])), max_size=12
)
SELECTORS = st.sampled_from([None, None, LabelSelector({"of": "a"})])
CLAIMS = st.lists(
    st.builds(
        UnboundClaim,
        st.sampled_from(["late", "late", "other"]),
        SIZES.map(lambda size: size << 30),
        st.just(("ReadWriteOnce",)),
        selector=SELECTORS,
        selected=st.sampled_from(["", "", "", "n01"]),
        shared=st.sampled_from(["", "", "", "default/c"]),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda one: one.shared or object(),
).map(lambda claims: sorted(claims, key=lambda one: one.size))


@given(VOLUMES, CLAIMS, st.lists(st.integers(0, NODES - 1), max_size=4))
def test_each_node_offers_the_smallest_volumes_that_suit_and_are_left(
    volumes: list[tuple[int, Any, str, str]], claims: list[UnboundClaim], placed: list[int]
) -> None:
    nodes = _nodes(volumes)
    free = StaticVolumes(nodes, claims)
    taken: set[str] = set()
    given_to: dict[int, str] = {}
    assert _all(nodes, free) == _plain(nodes, claims, taken, given_to)
    for row in placed:
        for i, name in enumerate(_plain(nodes, claims, taken, given_to)[row]):
            if claims[i].shared:
                given_to.setdefault(i, name)
            if name:
                taken.add(name)
        free.take(nodes, row)
        assert _all(nodes, free) == _plain(nodes, claims, taken, given_to)
        assert {i: free.given(i) for i in given_to} == given_to


def _nodes(volumes: Sequence[tuple[int, Any, str, str]]) -> NodeColumns:
    cluster = Cluster()
    for i in range(NODES):
        zone = {ZONE: f"z{'abc'[i % 3]}"} if i % 7 else {}
        cluster.put_node(node(f"n{i:02d}", labels={HOSTNAME: f"n{i:02d}", "number": str(i), **zone}))
    cluster.remove_node("n04")
    cluster.put_storage(storage_class())
    for i, (size, where, of, phase) in enumerate(volumes):
        cluster.put_storage(volume(f"v{i:02d}", size=f"{size}Gi", where=where, labels={"of": of}, phase=phase))
    return cluster.nodes


def _all(nodes: NodeColumns, free: StaticVolumes) -> list[tuple[str, ...]]:
    assert all((ranks[4] == NONE) for ranks in free.picks)
    return [free.names(row) for row in range(len(nodes))]


def _plain(
    nodes: NodeColumns, claims: Sequence[UnboundClaim], taken: set[str], given_to: dict[int, str]
) -> list[tuple[str, ...]]:
    volumes = nodes.volumes.book.volumes
    in_order = sorted(volumes.values(), key=lambda one: (one.size, one.metadata.name))
    out = []
    for row in range(len(nodes)):
        mine: list[str] = []
        for i, claim in enumerate(claims):
            if i in given_to:
                left = [volumes[given_to[i]]] if given_to[i] else []
            else:
                left = [one for one in in_order if one.metadata.name not in taken and _suits(one, claim)]
            names = [one.metadata.name for one in left if _usable(nodes, row, one)]
            mine.append(next((name for name in names if name not in mine), ""))
        out.append(tuple(mine))
    return out


def _suits(one: PersistentVolume, claim: UnboundClaim) -> bool:
    return (
        one.status.phase == "Available"
        and not claim.selected
        and one.storage_class == claim.storage_class
        and one.size >= claim.size
        and (claim.selector is None or claim.selector.matches(one.metadata.labels))
    )


def _usable(nodes: NodeColumns, row: int, one: PersistentVolume) -> bool:
    affinity = one.spec.node_affinity
    if not nodes.present[row]:
        return False
    required = affinity.required if affinity is not None else None
    return required is None or required.matches(nodes.labels[row], nodes.names[row])
