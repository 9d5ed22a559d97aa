"""Why a class of pods does not fit, in kube-scheduler's own format, which autoscalers read.

Format: kube-scheduler 1.36, framework/types.go (FitError): `0/N nodes are available: ` and the reasons with their
counts, sorted as strings. Of pods that must be near one another: which domain comes closest, and what it has room for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tutti.api.messages import all_of, counted
from tutti.api.resources import format_amount
from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.placement.framework import NO_FLAVOR
from tutti.placement.gang import Ask, feasible_capacity, place_ask
from tutti.placement.plugins import node_affinity, numa, shared_cards
from tutti.placement.plugins.card_shortage import card_shortage, closed_cards
from tutti.placement.plugins.device_shortage import device_shortage
from tutti.placement.plugins.devices import NOT_AVAILABLE, has_faults, held_elsewhere
from tutti.placement.plugins.interference import InterferenceFilter
from tutti.placement.plugins.numa_shortage import too_large_for_zones, zone_shortage
from tutti.placement.profile import Profile, counted_rejections, filter_nodes, static_filter_result
from tutti.placement.topology.assignment import TopologyChoice, domain_to_join, with_whole_slices
from tutti.placement.topology.fitting import InsufficientRoom, TopologyAssignment, assign_domains
from tutti.placement.topology.request import LevelRequest, SizedRequest


@dataclass(frozen=True, slots=True)
class TopologyObstacle:
    """What stands in the way.

    Attributes:
        message: In words.
        fits: How many of the pods could be near one another now.
        never: Whether no more room would help.
        details: The numbers, by name.
    """

    message: str
    fits: int = 0
    never: bool = False
    details: dict[str, str] = field(default_factory=dict)


def topology_obstacle(nodes: NodeColumns, choice: TopologyChoice, required: int) -> TopologyObstacle | None:
    """Say why so many pods cannot be near one another as things are; None where that is not what is missing."""
    topology, tree = choice.topology, choice.tree
    asked = choice.wish(required)
    if isinstance(asked, str):
        return TopologyObstacle(asked, never=True)
    if not len(tree.samples):
        labels = " and ".join(topology.levels)
        return TopologyObstacle(f"no node has the label{'s' * (len(topology.levels) > 1)} {labels}", never=True)
    where = domain_to_join(choice, asked) if topology.there else choice.within
    if where is None:
        homes = tree.domains_at(np.array(topology.there, dtype=np.int64), asked.limit)
        names = ", ".join(_domain_name(nodes, choice, int(home), asked.limit) for home in homes)
        level = topology.levels[asked.limit]
        return TopologyObstacle(
            f"All must be in one {level} domain, and the members that run are in {len(homes)}: {names}"
        )
    found = assign_domains(tree, choice.rooms(where, asked), with_whole_slices(asked))
    return None if isinstance(found, TopologyAssignment) else _obstacle_at(nodes, choice, asked, found)


def _obstacle_at(
    nodes: NodeColumns, choice: TopologyChoice, asked: SizedRequest, found: InsufficientRoom
) -> TopologyObstacle | None:
    level = choice.topology.levels[found.level]
    fits = min(found.fits * asked.size, asked.count)
    slices = f" in slices of {asked.size}" if asked.size > 1 else ""
    if found.domain < 0 or found.level != asked.limit:
        if not slices:
            return None
        kept = choice.topology.levels[asked.slice_level]
        text = f"There is room for only {fits} of {counted(asked.count, 'pod')}{slices}, each within one {kept} domain"
        return TopologyObstacle(text, fits, details={"sliceLevel": kept, "sliceSize": str(asked.size)})
    name = _domain_name(nodes, choice, found.domain, found.level)
    count = len(choice.tree.samples_of(found.level))
    details = {"level": level, "domains": str(count), "bestDomain": name}
    if choice.topology.there:
        name = _domain_name(nodes, choice, int(_homes(choice, found.level)[0]), found.level)
        text = f"Its other members are in {level} {name}, which has room for {fits} of {asked.count} more{slices}"
        return TopologyObstacle(text, fits, details={**details, "bestDomain": name})
    text = f"No {level} domain has room for {all_of(asked.count, 'pod')}{slices}"
    return TopologyObstacle(f"{text}; the best of {count}, {name}, has room for {fits}", fits, details=details)


def _homes(choice: TopologyChoice, level: int) -> list[int]:
    homes: list[int] = choice.tree.domains_at(np.array(choice.topology.there, dtype=np.int64), level).tolist()
    return homes


def _domain_name(nodes: NodeColumns, choice: TopologyChoice, domain: int, level: int) -> str:
    """Name a domain by its values, the widest level first."""
    labels = nodes.labels[int(choice.tree.samples_of(level)[domain])]
    return "/".join(labels[key] for key in choice.topology.levels[: level + 1])


def not_together_message(required: int, asked: LevelRequest, kinds: int) -> str:
    """Say that pods that fit in some domain, or each kind of them, were found no domain for all of them.

    Args:
        required: How many they are in all.
        asked: Where they want to be.
        kinds: How many asks they are of.
    """
    level = asked.within or asked.level
    where = f"No {level} domain was found with room" if level else "No room was found"
    alone = "each kind of them would fit alone" if kinds > 1 else "they would fit if nothing kept them apart"
    return f"{where} for {all_of(required, 'pod')}{' together' * (required > 1)}, though {alone}"


LARGER = ": ask for less, or add larger nodes"
NO_NODES = "no nodes available to schedule pods"


@dataclass(frozen=True, slots=True)
class FitError:
    """Why an ask could not be placed.

    Attributes:
        message: In kube-scheduler's format.
        fits: How many of the pods would fit now.
        wanted: How many must.
        never: What no node could ever give even if it were empty, in words, or "".
        details: Numbers for machines: reason -> nodes.
    """

    message: str
    fits: int
    wanted: int
    never: str = ""
    details: dict[str, str] = field(default_factory=dict)


def diagnose(nodes: NodeColumns, ask: Ask, profile: Profile) -> FitError:
    """Say why the required pods of an ask do not fit on the nodes as they are now."""
    if ask.pod_class.problem:
        return FitError(ask.pod_class.problem, 0, ask.required, never=ask.pod_class.problem)
    if nodes.count == 0:
        return FitError(NO_NODES, 0, ask.required)
    if node_affinity.names_none(ask.pod_class.spec):
        return FitError(refusal_message(nodes.count, node_affinity.CONFLICT), 0, ask.required)
    waiting = ask.pod_class.volumes.problem or ask.pod_class.devices.problem or ask.pod_class.cards.problem
    if waiting:
        return FitError(refusal_message(nodes.count, waiting), 0, ask.required)
    fault = filter_nodes(ask.pod_class, nodes, ask.where, profile).fault if has_faults(ask.pod_class, nodes) else ""
    if fault:
        return FitError(fault_message(fault), 0, ask.required)
    why = None if ask.topology is None else _topology_fit_error(nodes, ask, profile)
    if why is not None:
        return why
    with Transaction(nodes) as trial:
        placed = place_ask(nodes, trial, Ask(ask.pod_class, 0, ask.required, ask.where), profile)
        taken = placed.tolist() if placed is not None else []
    reasons, fits = filter_nodes(ask.pod_class, nodes, ask.where, profile).reasons, len(taken)
    if ask.topology is not None and fits >= ask.required:
        return not_together_error(nodes, [ask])
    if fits:
        reasons[f"node(s) with room for only {fits} of {ask.required} pods of the gang"] = len(set(taken))
    return FitError(
        message=_sentences(
            fit_error_message(nodes.count, reasons),
            _flavor_lacks(nodes, ask, reasons),
            _zones_lack(nodes, ask, profile),
            _devices_lack(nodes, ask, profile),
            _cards_lack(nodes, ask, profile),
            _behaviours_allow(nodes, ask, profile),
        ),
        fits=fits,
        wanted=ask.required,
        never=_never_fits(nodes, ask, profile),
        details={reason: str(count) for reason, count in sorted(reasons.items()) if count},
    )


def not_together_error(nodes: NodeColumns, asks: Sequence[Ask]) -> FitError:
    """Say that pods that fit by themselves do not fit near one another; `asks` are those of one pod set group."""
    required = sum(ask.required for ask in asks)
    topology = asks[0].topology
    assert topology is not None  # they are to be near one another
    why = not_together_message(required, topology.asked, len(asks))
    return FitError(refusal_message(nodes.count, why[0].lower() + why[1:]), max(ask.required for ask in asks), required)


def _topology_fit_error(nodes: NodeColumns, ask: Ask, profile: Profile) -> FitError | None:
    """Say why the required pods cannot be as near one another as they must be; None where that is not the reason."""
    assert ask.topology is not None  # asked by the caller
    with Transaction(nodes) as trial:
        choice = TopologyChoice.of(nodes, ask.topology, lambda: feasible_capacity(nodes, trial, ask, profile))
        found = topology_obstacle(nodes, choice, ask.required)
    if found is None:
        return None
    said = filter_nodes(ask.pod_class, nodes, ask.where, profile)
    if said.feasible.any():
        said.reasons["node(s) not near enough to others with room"] = int(said.feasible.sum())
    text = found.message
    if not found.never:
        lacks = _sentences(
            _flavor_lacks(nodes, ask, said.reasons),
            _zones_lack(nodes, ask, profile),
            _devices_lack(nodes, ask, profile),
            _cards_lack(nodes, ask, profile),
            _behaviours_allow(nodes, ask, profile),
        )
        text = _sentences(fit_error_message(nodes.count, said.reasons), lacks, f"{text}.")
    never = found.message if found.never else _never_fits(nodes, ask, profile)
    return FitError(text, found.fits, ask.required, never, found.details)


def _flavor_lacks(nodes: NodeColumns, ask: Ask, reasons: Mapping[str, int]) -> str:
    """Say what a flavor asks of nodes, where some were ruled out by that."""
    said = node_affinity.flavor_lacks(nodes, ask.where) if reasons.get(node_affinity.NOT_OF_FLAVOR) else ""
    return f"{said}." if said else ""


def _zones_lack(nodes: NodeColumns, ask: Ask, profile: Profile) -> str:
    """Say what NUMA zones lack: of the nodes that are ruled out for them, or where they have room for too few."""
    if not nodes.numa:
        return ""
    return _ruled_out_by_zones(nodes, ask, profile) or _limited_by(
        "NUMA zones", numa.NumaAlignment, nodes, ask, profile
    )


def _behaviours_allow(nodes: NodeColumns, ask: Ask, profile: Profile) -> str:
    """Say for how many pods there is room as far as it matters who slows down whom."""
    if not ask.pod_class.features & Feature.BEHAVIOUR:
        return ""
    return _limited_by("Rules of behaviour", InterferenceFilter, nodes, ask, profile)


def _cards_lack(nodes: NodeColumns, ask: Ask, profile: Profile) -> str:
    """Say what cards that pods share lack: of the nodes that are ruled out for them, or where too few would fit."""
    if not ask.pod_class.features & Feature.CARDS:
        return ""
    among, unsuited = np.zeros((2, len(nodes)), dtype=np.bool_)
    for rejection, hit in counted_rejections(ask.pod_class, nodes, ask.where, profile):
        if rejection.reason == shared_cards.TOO_FULL:
            among |= hit
        elif rejection.reason == shared_cards.NOT_SUITED:
            unsuited |= hit
    closed = closed_cards(nodes, unsuited)
    if among.any():
        return _sentences(card_shortage(ask.pod_class, nodes, among), closed)
    plain = replace(ask, topology=None)
    with Transaction(nodes) as trial:
        room = feasible_capacity(nodes, trial, plain, profile, most=max(1, ask.required)).room
    if int(room.sum()) >= ask.required:
        return ""
    return _sentences(f"Cards have room for {int(room.sum())} of {counted(ask.required, 'pod')}.", closed)


def _limited_by(who: str, rule: type, nodes: NodeColumns, ask: Ask, profile: Profile) -> str:
    """Say for how many pods a filter has room, where nodes would have room for more of them; "" where they have not."""
    others = tuple(one for one in profile.inter_pod if not isinstance(one, rule))
    plain = replace(ask, topology=None)
    with Transaction(nodes) as trial:
        by_rule, by_nodes = (
            int(feasible_capacity(nodes, trial, plain, one, most=max(1, ask.required)).room.sum())
            for one in (profile, replace(profile, inter_pod=others))
        )
    if by_rule >= min(by_nodes, ask.required):
        return ""
    return (
        f"{who} have room for {by_rule} of {counted(ask.required, 'pod')}; by all that the nodes have free, "
        f"{counted(by_nodes, 'pod')} would fit."
    )


def _devices_lack(nodes: NodeColumns, ask: Ask, profile: Profile) -> str:
    """Say which devices are lacking, where they are what keeps pods waiting."""
    if not ask.pod_class.features & Feature.DEVICES:
        return ""
    mask = static_filter_result(ask.pod_class, nodes, ask.where, profile).mask
    room = profile.fit.capacity(nodes, ask.pod_class, mask, most=max(1, ask.required))
    return device_shortage(nodes, ask.pod_class, ask.required, room)


def _ruled_out_by_zones(nodes: NodeColumns, ask: Ask, profile: Profile) -> str:
    among = np.zeros(len(nodes), dtype=np.bool_)
    for rejection, hit in counted_rejections(ask.pod_class, nodes, ask.where, profile):
        if rejection.reason in numa.REASONS.values() or rejection.reason == numa.INVALID:
            among |= hit
    return zone_shortage(ask.pod_class, nodes, among) if among.any() else ""


def _sentences(*parts: str) -> str:
    return " ".join(filter(None, parts))


def fit_error_message(count: int, reasons: Mapping[str, int]) -> str:
    """Return the message of a pod that fits on none of so many nodes."""
    parts = sorted(f"{n} {reason}" for reason, n in reasons.items() if n)
    return f"0/{count} nodes are available: {', '.join(parts)}."


def claims_in_the_way(nodes: NodeColumns, pod_class: PodClass, profile: Profile) -> list[int]:
    """Return which of the claims of a class that have devices keep its pods off a node that would do else, by place."""
    found: dict[int, None] = {}
    for rejection, hit in counted_rejections(pod_class, nodes, NO_FLAVOR, profile):
        if rejection.reason == NOT_AVAILABLE:
            found.update(dict.fromkeys(held_elsewhere(pod_class, nodes, hit)))
    return sorted(found)


def fault_message(why: str) -> str:
    """Return the message of a pod whose claims ask for what cannot be told of a node."""
    return f'running "DynamicResources" filter plugin: {why}'


def refusal_message(count: int, why: str) -> str:
    """Return the message of a pod that none of so many nodes was asked for."""
    return f"0/{count} nodes are available: {why}."


def _never_fits(nodes: NodeColumns, ask: Ask, profile: Profile) -> str:
    """Name what no node could mend: too large a pod, and claims that only one of several pods may use."""
    parts = [
        f"Claim {claim} is ReadWriteOncePod, and {ask.required} pods of the gang use it"
        for claim in (ask.pod_class.volumes.once if ask.required > 1 else ())
    ]
    stood_in = {one.resource for one in ask.pod_class.devices.extended}
    asked = {
        name: amount
        for name, amount in ask.pod_class.requests.items()
        if name not in stood_in and not profile.fit.is_ignored(name)
    }
    larger = [
        f"A pod asks for {format_amount(name, asked[name])} {name}; the largest node offers {format_amount(name, most)}"
        for name, most in too_large(nodes, asked).items()
    ]
    if larger:
        parts.append(f"{'. '.join(larger)}{LARGER}")
    if not parts and any(isinstance(one, numa.NumaAlignment) for one in profile.inter_pod):
        parts += filter(None, [too_large_for_zones(ask.pod_class, nodes)])
    return "; ".join(parts)


def too_large(nodes: NodeColumns, requests: Mapping[str, int]) -> dict[str, int]:
    """Return of which resources a pod asks for more than any node offers, and the most that one does."""
    axis, offered = nodes.resource_index, nodes.allocatable
    largest = {name: int(offered[:, axis.column(name)].max(initial=0)) if name in axis else 0 for name in requests}
    return {name: most for name, most in largest.items() if requests[name] > most}
