"""What the filters say of a class of pods: where it can go, and of every other node why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import ANYWHERE, Mask, Rejection, Tally, Where
from tutti.placement.plugins.node_affinity import NAMED_ELSE
from tutti.placement.profile import DEFAULT_PROFILE, Profile


@dataclass(frozen=True, slots=True)
class Standing:
    """What the filters that look at nodes alone say.

    Attributes:
        mask: bool[rows], True where the class may run as far as they are concerned.
        rejections: Per filter, in order; those of the profile's late filters last.
    """

    mask: Mask
    rejections: tuple[Sequence[Rejection], ...]


@dataclass(frozen=True, slots=True)
class Assessment:
    """What all filters say.

    Attributes:
        feasible: bool[rows], where one pod of the class could go now.
        reasons: How many nodes were ruled out for what; one that lacks several resources counts for each.
        final: bool[rows], ruled out such that taking pods out of the node could not help.
    """

    feasible: Mask
    reasons: Counter[str]
    final: Mask


def standing(klass: PodClass, nodes: NodeColumns, where: Where, profile: Profile) -> Standing:
    """Return what the node filters say, kept on the class while the columns they read are unchanged."""
    stamp = (nodes.version, len(nodes))
    return klass.keep(("standing", where, profile), stamp, lambda: _standing(klass, nodes, where, profile))


def _standing(klass: PodClass, nodes: NodeColumns, where: Where, profile: Profile) -> Standing:
    mask = nodes.present.copy()
    said = []
    for one in (*profile.filters, *profile.late):
        rejections = one.rejections(klass, nodes, where)
        for rejection in rejections:
            mask &= ~rejection.rows
        said.append(rejections)
    return Standing(mask, tuple(said))


def tallies(klass: PodClass, nodes: NodeColumns, where: Where, profile: Profile) -> list[Tally]:
    """Begin a choice: return what the filters that look at other pods know, in order, resources left out."""
    found = (one.tally(klass, nodes, where) for one in (profile.ports, *profile.volumes, *profile.company))
    return [one for one in found if one is not None]


def assess(
    klass: PodClass, nodes: NodeColumns, where: Where = ANYWHERE, profile: Profile = DEFAULT_PROFILE
) -> Assessment:
    """Return what all filters say of one more pod of a class, on the columns as they are now."""
    if klass.volumes.problem:
        return Assessment(np.zeros(len(nodes), dtype=np.bool_), Counter(), nodes.present.copy())
    left = nodes.present.copy()
    final = np.zeros(len(nodes), dtype=np.bool_)
    reasons: Counter[str] = Counter()
    for rejection, hit in ruled_out(klass, nodes, where, profile):
        reasons[rejection.reason] += int(np.count_nonzero(hit))
        final |= hit & rejection.final
        left &= ~hit
    return Assessment(left, +reasons, final)


def ruled_out(klass: PodClass, nodes: NodeColumns, where: Where, profile: Profile) -> Iterator[tuple[Rejection, Mask]]:
    """Yield what rules nodes out, with the nodes that count for it: bool[rows].

    A node counts for the first filter that rules it out, and there for everything that the filter says of it.
    """
    left = nodes.present.copy()
    for rejections in _said(klass, nodes, where, profile):
        out = np.zeros(len(nodes), dtype=np.bool_)
        for rejection in rejections:
            hit = left & rejection.rows
            yield rejection, hit
            out |= hit
        left &= ~out


def _said(klass: PodClass, nodes: NodeColumns, where: Where, profile: Profile) -> list[Sequence[Rejection]]:
    """Return what each filter rules out, in the order in which a node counts."""
    alone, early = standing(klass, nodes, where, profile).rejections, len(profile.filters)
    said: list[Sequence[Rejection]] = [*_names_first(alone[:early])]
    for one in (profile.ports, profile.fit, *profile.volumes, *profile.company):
        tally = one.tally(klass, nodes, where)
        if tally is not None:
            said.append(tally.rejections())
    return [*said, *alone[early:]]


def _names_first(said: Sequence[Sequence[Rejection]]) -> list[Sequence[Rejection]]:
    """Let nodes that the pod's affinity does not name count as that, before any filter has looked at them."""
    named = [rejection for rejections in said for rejection in rejections if rejection.reason == NAMED_ELSE]
    return [named, *said]
