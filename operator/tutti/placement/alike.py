"""Asks whose pods nothing tells apart while they are placed: one choice of nodes serves all of them.

The parts of an application differ by a label, which tells who talks to whom. Once it is settled in which place each
part goes (`least_network_cost.py`), many have nothing left that differs: their pods ask for the same, and no rule looks
at anything else. The first are then placed as k equal pods are (`node_choice.py`), and the next go on in that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.placement.framework import InterPodFilter, InterPodScorer, Mask, NodeScorer, Rows
from tutti.placement.gang import Ask, feasible_capacity, looks_around
from tutti.placement.node_choice import discriminating_scores
from tutti.placement.order_ahead import goes_by_columns
from tutti.placement.plugins.measured_load import MeasuredLoad
from tutti.placement.profile import Profile, features_of, static_filter_result

_TAKES_MORE = Feature.HOST_PORTS | Feature.DISKS | Feature.CLAIMS | Feature.DEVICES | Feature.CARDS | Feature.NUMA_ZONES
"""What pods take of a node beside the room that its columns tell of."""


def are_alike(one: Ask, other: Ask, nodes: NodeColumns, profile: Profile) -> bool:
    """Whether pods of two asks differ in nothing but their labels, and may run on the same nodes."""
    mine, its = one.pod_class, other.pod_class
    if mine.spec is not its.spec or (mine.namespace, mine.requests) != (its.namespace, its.requests):
        return False
    if one.where != other.where or one.topology or other.topology or one.extra or other.extra:
        return False
    allowed = [static_filter_result(ask.pod_class, nodes, ask.where, profile).mask for ask in (one, other)]
    return np.array_equal(allowed[0], allowed[1])


def minds_nodes_alone(pod_class: PodClass, nodes: NodeColumns, transaction: Transaction, profile: Profile) -> bool:
    """Whether what nodes offer and have in use decides where pods of a class go, and nothing beside it."""
    features = features_of(pod_class, nodes)
    asked: list[InterPodFilter | InterPodScorer | NodeScorer] = [profile.ports, *profile.volumes, *profile.inter_pod]
    asked += [profile.devices, *profile.neighbours, *profile.changing]
    return (
        not features & _TAKES_MORE
        and profile.packing is None
        and not any(one.concerns & features for one in asked)
        and not discriminating_scores(pod_class, nodes, profile)
        and all(
            one.goes_on(nodes) if isinstance(one, MeasuredLoad) else goes_by_columns((one,)) for one in profile.fill
        )
        and not looks_around(pod_class, nodes, transaction)
    )


def place_alike(
    nodes: NodeColumns, transaction: Transaction, asks: Sequence[Ask], profile: Profile, *, within: Mask
) -> list[Rows] | None:
    """Take room for what asks require that are alike and mind nodes alone, one after the other.

    Args:
        nodes: The columns.
        transaction: Takes the room.
        asks: What is wanted.
        profile: How pods are placed.
        within: bool[rows], where.

    Returns:
        What `gang.place_ask` would give for each in turn; None, and nothing taken, where one does not fit.
    """
    wanted = [ask.required for ask in asks]
    whole = replace(asks[0], required=sum(wanted))
    seen = feasible_capacity(nodes, transaction, whole, profile, within=within, most=whole.required)
    if int(seen.room.sum()) < whole.required:
        return None
    shares = [(ask.pod_class, ask.required) for ask in asks]
    found = []
    for counts in seen.choice.in_shares(shares):
        rows = counts.nonzero()[0]
        found.append(rows.repeat(counts[rows]))
    return found
