"""Choosing victims for a gang that must stay in one domain of a topology: which domain, and whom there.

Of all domains that have room for it once everybody up to the least possible priority is gone, those with the most room
are looked at one by one; the cheapest choice counts. Of several asks, whether a domain has room is told by what they
take together and by what the hardest asks for; in all domains together they are no more than `ask_by_ask.MOST_ASKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from tutti.cluster.cluster import Cluster
from tutti.placement.framework import Mask, Rows
from tutti.placement.gang import Ask, hardest_first, required_amounts
from tutti.placement.preemption.ask_by_ask import MOST_ASKS, ask_by_ask
from tutti.placement.preemption.by_room import ByRoom, placement_changes_other_nodes
from tutti.placement.preemption.by_trial import ByTrial
from tutti.placement.preemption.search import VictimSearch
from tutti.placement.preemption.units import BarredNodes, Numbers, VictimUnits
from tutti.placement.topology.request import Together, TopologyPlacement
from tutti.placement.topology.tree import domain_tree

MOST_LOOKED_AT = 16
"""How many domains are looked at; each takes about as long as a choice among all nodes of a small cluster."""

_Sums = Callable[[Mask], Numbers]
"""Given bool[units] that are gone, for each domain what there is room for."""


def asks_for_one_domain_only(topology: TopologyPlacement) -> bool:
    """Whether nearness means no more than nodes of the topology, or one domain of it, for pods that are the first."""
    return not (topology.there or topology.asked.slices or topology.asked.within or topology.home is not None)


def in_one_domain(search: VictimSearch, ask: Ask, closed: BarredNodes | None = None) -> Mask | None:
    """Return bool[units] that must go so that an ask fits as near as it must be; None where that is not found."""
    topology, units = ask.topology, search.units
    assert topology is not None  # only then there are domains to choose from
    domain, plain = domains_of(search.cluster, topology), replace(ask, topology=None)
    everywhere = ByRoom(search, plain, within=domain >= 0, closed=closed)
    if topology.asked.together is not Together.REQUIRED:
        return everywhere.choose(np.zeros(len(units), dtype=np.bool_))
    able = _able(everywhere, units, domain, ask.required)
    found: list[Mask] = []
    for one in able[:MOST_LOOKED_AT].tolist():
        rows = domain == one
        there = _units_on(search, rows)
        nobody = np.zeros(int(there.sum()), dtype=np.bool_)
        chosen = ByRoom(search.among(there), plain, within=rows, closed=closed).choose(nobody)
        if chosen is not None:
            found.append(_of_all(there, chosen))
    return min(found, key=search.cost) if found else None


def _units_on(search: VictimSearch, rows: Mask) -> Mask:
    """Return bool[units]: who has a pod on some rows, bool[rows]."""
    units = search.units
    there = np.zeros(len(units), dtype=np.bool_)
    there[units.of[rows[search.cluster.pod_columns.row[units.slots]]]] = True
    return there


def _of_all(some: Mask, chosen: Mask) -> Mask:
    """Return bool[units]: who was chosen of some of them."""
    gone = np.zeros(len(some), dtype=np.bool_)
    gone[some] = chosen
    return gone


def domains_of(cluster: Cluster, topology: TopologyPlacement) -> Rows:
    """Return int64[rows]: each node's domain of the level that is asked for, -1 where it is in none."""
    tree = domain_tree(cluster.nodes, topology.levels)
    level = tree.levels.index(topology.asked.level) if topology.asked.level else 0
    of_leaf = tree.above(np.arange(len(tree.samples)), tree.lowest, level)
    return np.append(of_leaf, -1)[tree.leaf_of]


def _able(everywhere: ByRoom, units: VictimUnits, domain: Rows, wanted: int) -> Numbers:
    """Return the domains with room for all once those up to the least band that does are gone, the roomiest first."""
    return _roomiest(units, lambda gone: _sums(everywhere.capacity(gone), domain), wanted)


def _roomiest(units: VictimUnits, sums: _Sums, wanted: int) -> Numbers:
    """Return the domains with so much room once those up to the least band are gone, the roomiest first."""
    bands = np.unique(units.band)
    low, high = -1, len(bands)
    while high - low > 1:
        middle = (low + high) // 2
        if (sums(units.band <= bands[middle]) >= wanted).any():
            high = middle
        else:
            low = middle
    if high == len(bands):
        return np.zeros(0, dtype=np.int64)
    found = sums(units.band <= bands[high])
    able = np.flatnonzero(found >= wanted)
    return able[np.argsort(-found[able], kind="stable")]


def _sums(of_rows: Numbers, domain: Rows) -> Numbers:
    """Return for each domain what its rows have together; of_rows: int64[rows] or int64[rows, k]."""
    known = domain >= 0
    out = np.zeros((int(domain.max(initial=-1)) + 1, *of_rows.shape[1:]), dtype=np.int64)
    np.add.at(out, domain[known], of_rows[known])
    return out


def are_one_set(asks: Sequence[Ask]) -> bool:
    """Whether several asks, all of the same pod set group, must be in one domain, and that is all of their nearness."""
    topology = asks[0].topology
    return (
        len(asks) > 1
        and topology is not None
        and topology.asked.together is Together.REQUIRED
        and topology.pod_set_group != ""
        and all(
            one is not None
            and one.pod_set_group == topology.pod_set_group
            and (one.levels, one.asked) == (topology.levels, topology.asked)
            and asks_for_one_domain_only(one)
            for one in (ask.topology for ask in asks)
        )
    )


def all_in_one_domain(search: VictimSearch, asks: Sequence[Ask], *, seen: bool) -> Iterator[Mask]:
    """Yield for some domains bool[units] that must go so that all of several asks fit there; `seen` as in `ByTrial`."""
    topology, cluster = asks[0].topology, search.cluster
    assert topology is not None  # they are one set
    domain, plain = domains_of(cluster, topology), [replace(ask, topology=None) for ask in asks]
    tries = seen or any(placement_changes_other_nodes(cluster, ask, search.profile) for ask in plain)
    able = _able_for_all(search, plain, domain)
    for one in able[: max(1, min(MOST_LOOKED_AT, MOST_ASKS // len(asks)))].tolist():
        rows = domain == one
        there = _units_on(search, rows)
        some = search.among(there)
        chosen = None if tries else ask_by_ask(some, plain, [None] * len(plain), within=rows)
        if chosen is None:
            chosen = ByTrial(some, plain, seen=seen, within=rows).choose()
        if chosen is not None:
            yield _of_all(there, chosen)


def _able_for_all(search: VictimSearch, asks: Sequence[Ask], domain: Rows) -> Numbers:
    """Return the domains that seem to have room for several asks once those up to the least band are gone."""
    cluster, units = search.cluster, search.units
    nodes = cluster.nodes
    wanted = required_amounts(asks, search.profile)
    columns = np.array(list(nodes.resource_index.columns(wanted)), dtype=np.int64)
    amounts = np.array([wanted[name] for name in wanted], dtype=np.int64)
    hardest = asks[hardest_first(nodes, asks)[0]]
    everywhere = ByRoom(search, hardest, within=domain >= 0)
    row = cluster.pod_columns.row[units.slots].astype(np.int64)
    held = cluster.pod_columns.held(units.slots, nodes.resource_index)[:, columns]

    def parts(gone: Mask) -> Numbers:
        """Return for each domain for how many thousandths of the gang it has room, 0 where not for the hardest."""
        free = (nodes.allocatable - nodes.requested)[:, columns]
        leaves = gone[units.of]
        np.add.at(free, row[leaves], held[leaves])
        sums, room = _sums(np.maximum(free, 0), domain), _sums(everywhere.capacity(gone), domain)
        part = (sums * _WHOLE // np.maximum(amounts, 1)).min(axis=1, initial=np.iinfo(np.int64).max)
        return np.where(room >= hardest.required, part, 0)

    return _roomiest(units, parts, _WHOLE)


_WHOLE = 1000
