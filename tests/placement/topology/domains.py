"""Small topologies written down as text."""

from __future__ import annotations

import numpy as np

from tutti.placement.topology.fill import DomainCapacity, domain_capacity, leaf_capacity
from tutti.placement.topology.fitting import InsufficientRoom, TopologyAssignment, assign_domains
from tutti.placement.topology.request import LevelRequest, sized_request
from tutti.placement.topology.tree import DomainTree, grow_tree


def tree_of_paths(paths: list[str]) -> DomainTree:
    """The tree of leaves written as `block/rack/node`; the levels are called 0, 1, ..."""
    columns = list(zip(*(path.split("/") for path in paths), strict=True))
    levels = [str(level) for level in range(len(columns))]
    return grow_tree(levels, [np.array([sorted(set(column)).index(value) for value in column]) for column in columns])


def leaves_of(tree: DomainTree, rooms: list[int], leader: int | None) -> DomainCapacity:
    """What each place has room for in units, of which a pod takes one and the leader so many."""
    pods = tree.sum(np.array(rooms))
    if leader is None:
        return leaf_capacity(pods)
    leads = pods >= leader
    return leaf_capacity(pods, leads, pods - leader * leads)


def placed(
    rooms: dict[str, int], count: int, asked: LevelRequest, *, leader: int | None = None
) -> dict[str, int] | InsufficientRoom | str:
    """Pods per leaf, by the last part of its path; the leader's leaf is marked by a "+" at its end."""
    paths = list(rooms)
    tree = tree_of_paths(paths)
    meant = sized_request(asked, tree.levels, count, 0 if leader is None else 1)
    if isinstance(meant, str):
        return meant
    spots = assign_domains(tree, domain_capacity(tree, leaves_of(tree, list(rooms.values()), leader), meant), meant)
    return spots if isinstance(spots, InsufficientRoom) else told(spots, tree, paths)


def told(spots: TopologyAssignment, tree: DomainTree, paths: list[str]) -> dict[str, int]:
    names = [paths[place].rsplit("/", 1)[-1] for place in tree.samples.tolist()]
    return {
        names[leaf] + "+" * (leaf == spots.leader): count
        for leaf, count in zip(spots.leaves.tolist(), spots.pods.tolist(), strict=True)
    }
