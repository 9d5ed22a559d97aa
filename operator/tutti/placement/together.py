"""Several asks of one workload, placed together or not at all: a leader and its workers, a launcher and its ranks.

Those of an application go where they cost least over the network (`least_network_cost`). All others are placed one ask
after another, the hardest first. Where that fails though each would fit alone, the order may be to blame, or that one
ask went where another had to go; then other arrangements are looked for (`arrangement`) before it is said that they do
not fit. kube-scheduler, which decides pod by pod, leaves such a gang waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tutti.cluster.classes import Feature
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.placement.arrangement import ArrangementSearch
from tutti.placement.diagnosis import FitError, diagnose, not_together_error
from tutti.placement.framework import Mask, Rows
from tutti.placement.gang import Ask, hardest_first, place_ask
from tutti.placement.least_network_cost import is_planned, place_at_least_network_cost
from tutti.placement.plugins.spread_constraints import HARD
from tutti.placement.profile import Profile
from tutti.placement.shared_claims import OpenClaim, SharedClaimSearch, open_claims, place_with_shared_claims
from tutti.placement.topology.colocation import DomainSearch, colocated_sets, expecting, joining, place_colocated_sets


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why several asks could not be placed together.

    Attributes:
        index: The ask that found no room, with the others before it placed.
        misfit: What nodes lacked for it then.
        tried: How many other arrangements were looked at; 0 where none could have helped.
    """

    index: int
    fit_error: FitError
    tried: int = 0


def place_together(
    nodes: NodeColumns, transaction: Transaction, asks: Sequence[Ask], profile: Profile, *, apart: bool = True
) -> list[Rows] | Diagnosis:
    """Take room for all that is required of several asks, then for as much of what is extra as there is room for.

    Args:
        nodes: The columns.
        transaction: Takes the room.
        asks: What is wanted.
        profile: How pods are placed.
        apart: Whether pods that share a claim may be out of the supposed reach of one volume, where it is not known
            how far one reaches and they fit nowhere else.

    Returns:
        Per ask the rows of its pods as `gang.place_ask` gives them, the required ones first; or why they do not fit,
        with everything that this call took given back.
    """
    claims = open_claims(nodes, asks) if any(ask.pod_class.features & Feature.CLAIMS for ask in asks) else []
    if not claims:
        return _place_together(nodes, transaction, asks, profile)
    shortfalls: list[Diagnosis] = []

    def attempt() -> list[Rows] | None:
        found = _place_together(nodes, transaction, asks, profile)
        if isinstance(found, Diagnosis):
            shortfalls.append(found)
            return None
        return found

    placed = place_with_shared_claims(
        SharedClaimSearch(nodes, transaction, asks, profile, claims), attempt, apart=apart
    )
    if placed is not None:
        return placed
    return shortfalls[0] if shortfalls else _out_of_reach(nodes, asks, claims[0], profile)


def fit_together(
    nodes: NodeColumns, transaction: Transaction, asks: Sequence[Ask], profile: Profile
) -> list[Rows] | None:
    """Do as `place_together`, for who asks about many cases and would not read why in one of them they do not fit."""
    if any(ask.pod_class.features & Feature.CLAIMS for ask in asks):
        found = place_together(nodes, transaction, asks, profile)
        return None if isinstance(found, Diagnosis) else found
    placed = _attempt(nodes, transaction, asks, profile)
    return None if isinstance(placed, _Misfit) else placed


def _out_of_reach(nodes: NodeColumns, asks: Sequence[Ask], claim: OpenClaim, profile: Profile) -> Diagnosis:
    """Say that pods which fit by themselves do not fit where one volume is supposed to be used."""
    index = claim.users[0]
    return Diagnosis(index, diagnose(nodes, asks[index], profile))


class _Misfit(NamedTuple):
    """That asks do not fit together.

    Attributes:
        first: The first that found no room, or of those that have to be near one another the first.
        order: In which they were placed.
        tried: How many other arrangements were looked at.
    """

    first: int
    order: Sequence[int] = ()
    tried: int = 0


def _place_together(
    nodes: NodeColumns, transaction: Transaction, asks: Sequence[Ask], profile: Profile
) -> list[Rows] | Diagnosis:
    """Place asks as things are."""
    found = _attempt(nodes, transaction, asks, profile)
    if not isinstance(found, _Misfit):
        return found
    if len(asks) == 1 and not _has_arrangements(asks[0]):
        return Diagnosis(0, diagnose(nodes, asks[0], profile))
    required = [replace(ask, extra=0) for ask in asks]
    if any(ask.topology for ask in asks):
        return _colocation_diagnosis(nodes, required, found.first, profile)
    return _diagnosis(nodes, transaction, required, found.order, profile, found.tried)


def _attempt(
    nodes: NodeColumns, transaction: Transaction, asks: Sequence[Ask], profile: Profile
) -> list[Rows] | _Misfit:
    if is_planned(asks, profile):
        required = [replace(ask, extra=0) for ask in asks]
        order = hardest_first(nodes, required)
        planned = place_at_least_network_cost(nodes, transaction, required, order, profile)
        if planned is not None:
            return _with_extras(nodes, transaction, asks, planned, order, profile)
    if len(asks) == 1 and not _has_arrangements(asks[0]):
        rows = place_ask(nodes, transaction, asks[0], profile)
        return _Misfit(0) if rows is None else [rows]
    required = [replace(ask, extra=0) for ask in asks]
    hardest = hardest_first(nodes, required)
    order = [index for index in hardest if required[index].required]
    if any(ask.topology for ask in asks):
        topology = place_colocated_sets(nodes, transaction, [expecting(ask) for ask in asks], profile)
        if isinstance(topology, int):
            found = DomainSearch(nodes, transaction, required, profile).run()
            if found is None:
                return _Misfit(topology)
            topology = found
        return _with_extras(nodes, transaction, asks, topology, hardest, profile)
    placed = in_order(nodes, transaction, required, order, profile)
    if isinstance(placed, int):
        search = ArrangementSearch(nodes, transaction, required, profile)
        found = search.run(order, placed)
        if found is None:
            return _Misfit(placed, order, search.tried)
        placed = found
    return _with_extras(nodes, transaction, asks, placed, hardest, profile)


def _colocation_diagnosis(nodes: NodeColumns, asks: Sequence[Ask], index: int, profile: Profile) -> Diagnosis:
    """Say what the co-located set of an ask lacks: what one of its asks alone does, or a domain for all."""
    colocated = next(members for members in colocated_sets(asks, range(len(asks))) if index in members)
    for one in colocated:
        fit_error = diagnose(nodes, asks[one], profile)
        if fit_error.fits < fit_error.wanted:
            return Diagnosis(one, fit_error)
    return Diagnosis(
        index, fit_error if len(colocated) == 1 else not_together_error(nodes, [asks[one] for one in colocated])
    )


def _with_extras(
    nodes: NodeColumns,
    transaction: Transaction,
    asks: Sequence[Ask],
    placed: list[Rows],
    order: Sequence[int],
    profile: Profile,
) -> list[Rows]:
    """Return what is placed, and as much of what is extra as there is room for, near it where that was asked for."""
    found = list(placed)
    for index in order:
        if asks[index].extra and not asks[index].pod_class.refusal:
            more = place_ask(nodes, transaction, joining(asks, index, found), profile)
            assert more is not None  # nothing is required, so nothing can be short
            found[index] = np.concatenate((found[index], more))
    return found


def _has_arrangements(ask: Ask) -> bool:
    """Whether it can matter for how many pods of one ask fit where the first of them go.

    It does not where nodes alone decide, nor for one spread constraint: when no node is left that it allows, the
    emptiest domain is full, and all others are as full as that lets them be.
    """
    constraints = ask.pod_class.inter_pod
    spreads = [one for one in ask.pod_class.spec.topology_spread_constraints if one.when_unsatisfiable == HARD]
    return bool(constraints.affinity) or len(constraints.anti_affinity) + len(spreads) > 1


def in_order(
    nodes: NodeColumns,
    transaction: Transaction,
    asks: Sequence[Ask],
    order: Sequence[int],
    profile: Profile,
    *,
    within: Mask | None = None,
) -> list[Rows] | int:
    """Place asks one after another, `within` some rows; returns their rows, or which one did not fit, nothing taken."""
    mark = transaction.mark()
    placed: list[Rows] = [np.zeros(0, dtype=np.int64)] * len(asks)
    for index in order:
        rows = place_ask(nodes, transaction, asks[index], profile, within=within)
        if rows is None:
            transaction.rollback(mark)
            return index
        placed[index] = rows
    return placed


def _diagnosis(
    nodes: NodeColumns,
    transaction: Transaction,
    asks: Sequence[Ask],
    order: Sequence[int],
    profile: Profile,
    tried: int,
) -> Diagnosis:
    """Say what the first ask that does not fit lacks, with those before it placed."""
    mark = transaction.mark()
    for index in order:
        if place_ask(nodes, transaction, asks[index], profile) is None:
            fit_error = diagnose(nodes, asks[index], profile)
            transaction.rollback(mark)
            return Diagnosis(index, fit_error, tried)
    raise AssertionError("asks that fit in this order were said not to fit in it")
