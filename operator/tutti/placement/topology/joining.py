"""Placing pods near others of their party that run already: replacements of lost members, and late ones.

Members that must be together stay in the domain of those that run. Where they only should be, the nearest level with
room counts, pod by pod. A slice that has lost members gets new ones in its own domain before a new slice is begun.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tutti.placement.framework import Counts, Mask
from tutti.placement.topology.near import Nearby
from tutti.placement.topology.request import Wish


def place_near(choice: Nearby, required: int, extra: int) -> Counts:
    """Place all that is required, and as much more as there is room for near it, or near those that are there.

    Returns:
        int64[rows], how many on each; fewer than required, where these do not fit.
    """
    if choice.near.there:
        return _join(choice, required, extra)
    return choice.place(choice.within, required, extra, choice.near.growth)


def _join(choice: Nearby, required: int, extra: int) -> Counts:
    """Place pods near those that are there; returns int64[rows], how many on each."""
    wanted = required + extra
    counts = np.zeros_like(choice.seen.room)
    asked = choice.wish(wanted)
    if isinstance(asked, str):
        return counts
    where = home_of(choice, asked)
    if where is None:
        return counts
    if choice.near.asked.slices:
        chain = [(choice.tree.levels.index(one.level), one.size) for one in choice.near.asked.slices]
        own = np.array([row for row in choice.near.own if choice.tree.leaf_of[row] >= 0], dtype=np.int64)
        counts = _fill_gaps(choice, where, own, chain, wanted)
        done = int(counts.sum())
        if done < wanted:
            counts = counts + choice.place(where, max(0, required - done), wanted - max(done, required))
        return counts
    for level in range(asked.level, -1, -1) if not asked.loose else ():
        near = where & choice.tree.rows_of(_domains(choice, level), level)
        counts = counts + choice.seen.take(wanted - int(counts.sum()), near)
    return counts + choice.seen.take(wanted - int(counts.sum()), where)


def home_of(choice: Nearby, asked: Wish) -> Mask | None:
    """Return bool[rows]: where pods may join those that are there; None where these are in several domains already."""
    if asked.limit < 0:
        return choice.within
    homes = _domains(choice, asked.limit)
    if len(homes) > 1:
        return None
    return choice.within & choice.tree.rows_of(homes, asked.limit) if len(homes) else choice.within


def _domains(choice: Nearby, level: int) -> Counts:
    return choice.tree.domains_at(np.array(choice.near.there, dtype=np.int64), level)


def _fill_gaps(choice: Nearby, where: Mask, own: Counts, chain: Sequence[tuple[int, int]], most: int) -> Counts:
    """Place up to so many pods where a slice of `chain`, the widest first, has lost some of its own."""
    counts = np.zeros_like(choice.seen.room)
    level, size = chain[0]
    domains, there = np.unique(
        choice.tree.above(choice.tree.leaf_of[own], choice.tree.lowest, level), return_counts=True
    )
    for domain, count in zip(domains.tolist(), there.tolist(), strict=True):
        gap = min(-count % size, most - int(counts.sum()))
        if not gap:
            continue
        inside = where & choice.tree.rows_of(np.array([domain]), level)
        if len(chain) > 1:
            inner = _fill_gaps(choice, inside, own[inside[own]], chain[1:], gap)
            counts, gap = counts + inner, gap - int(inner.sum())
        counts = counts + choice.seen.take(gap, inside)
    return counts
