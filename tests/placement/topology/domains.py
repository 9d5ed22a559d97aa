"""Small topologies written down as text."""

from __future__ import annotations

import numpy as np

from tutti.placement.topology.fitting import Spots, TooFew, fit
from tutti.placement.topology.request import TopologyRequest, wish
from tutti.placement.topology.room import Room, in_domains, in_leaves
from tutti.placement.topology.tree import Tree, grow


def tree_of_paths(paths: list[str]) -> Tree:
    """The tree of leaves written as `block/rack/node`; the levels are called 0, 1, ..."""
    columns = list(zip(*(path.split("/") for path in paths), strict=True))
    levels = [str(level) for level in range(len(columns))]
    return grow(levels, [np.array([sorted(set(column)).index(value) for value in column]) for column in columns])


def leaves_of(tree: Tree, rooms: list[int], leader: int | None) -> Room:
    """What each place has room for in units, of which a pod takes one and the leader so many."""
    pods = tree.sum(np.array(rooms))
    if leader is None:
        return in_leaves(pods)
    leads = pods >= leader
    return in_leaves(pods, leads, pods - leader * leads)


def placed(
    rooms: dict[str, int], count: int, asked: TopologyRequest, *, leader: int | None = None
) -> dict[str, int] | TooFew | str:
    """Pods per leaf, by the last part of its path; the leader's leaf is marked by a "+" at its end."""
    paths = list(rooms)
    tree = tree_of_paths(paths)
    meant = wish(asked, tree.levels, count, 0 if leader is None else 1)
    if isinstance(meant, str):
        return meant
    spots = fit(tree, in_domains(tree, leaves_of(tree, list(rooms.values()), leader), meant), meant)
    return spots if isinstance(spots, TooFew) else told(spots, tree, paths)


def told(spots: Spots, tree: Tree, paths: list[str]) -> dict[str, int]:
    names = [paths[place].rsplit("/", 1)[-1] for place in tree.samples.tolist()]
    return {
        names[leaf] + "+" * (leaf == spots.leader): count
        for leaf, count in zip(spots.leaves.tolist(), spots.pods.tolist(), strict=True)
    }
