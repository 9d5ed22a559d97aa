"""Why a class of pods does not fit, in kube-scheduler's own format, which autoscalers read.

Format: kube-scheduler 1.36, framework/types.go (FitError): `0/N nodes are available: ` and the reasons with their
counts, sorted as strings. Of pods that must be near one another: which domain comes closest, and what it has room for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tutti.api.resources import describe
from tutti.api.wording import all_of
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.placement.gang import Ask, feasible_capacity, place_ask
from tutti.placement.plugins import node_affinity
from tutti.placement.profile import Profile, filter_nodes
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
    near, tree = choice.near, choice.tree
    asked = choice.wish(required)
    if isinstance(asked, str):
        return TopologyObstacle(asked, never=True)
    if not len(tree.samples):
        labels = " and ".join(near.levels)
        return TopologyObstacle(f"no node has the label{'s' * (len(near.levels) > 1)} {labels}", never=True)
    where = domain_to_join(choice, asked) if near.there else choice.within
    if where is None:
        homes = tree.domains_at(np.array(near.there, dtype=np.int64), asked.limit)
        names = ", ".join(_domain_name(nodes, choice, int(home), asked.limit) for home in homes)
        level = near.levels[asked.limit]
        return TopologyObstacle(
            f"All must be in one {level} domain, and the members that run are in {len(homes)}: {names}"
        )
    found = assign_domains(tree, choice.rooms(where, asked), with_whole_slices(asked))
    return None if isinstance(found, TopologyAssignment) else _obstacle_at(nodes, choice, asked, found)


def _obstacle_at(
    nodes: NodeColumns, choice: TopologyChoice, asked: SizedRequest, found: InsufficientRoom
) -> TopologyObstacle | None:
    level = choice.near.levels[found.level]
    fits = min(found.fits * asked.size, asked.count)
    slices = f" in slices of {asked.size}" if asked.size > 1 else ""
    if found.domain < 0 or found.level != asked.limit:
        if not slices:
            return None
        kept = choice.near.levels[asked.slice_level]
        text = f"There is room for only {fits} of {asked.count} pods{slices}, each within one {kept} domain"
        return TopologyObstacle(text, fits, details={"sliceLevel": kept, "sliceSize": str(asked.size)})
    name = _domain_name(nodes, choice, found.domain, found.level)
    count = len(choice.tree.samples_of(found.level))
    details = {"level": level, "domains": str(count), "bestDomain": name}
    if choice.near.there:
        name = _domain_name(nodes, choice, int(_homes(choice, found.level)[0]), found.level)
        text = f"Its other members are in {level} {name}, which has room for {fits} of {asked.count} more{slices}"
        return TopologyObstacle(text, fits, details={**details, "bestDomain": name})
    text = f"No {level} domain has room for {all_of(asked.count, 'pod')}{slices}"
    return TopologyObstacle(f"{text}; the best of {count}, {name}, has room for {fits}", fits, details=details)


def _homes(choice: TopologyChoice, level: int) -> list[int]:
    homes: list[int] = choice.tree.domains_at(np.array(choice.near.there, dtype=np.int64), level).tolist()
    return homes


def _domain_name(nodes: NodeColumns, choice: TopologyChoice, domain: int, level: int) -> str:
    """Name a domain by its values, the widest level first."""
    labels = nodes.labels[int(choice.tree.samples_of(level)[domain])]
    return "/".join(labels[key] for key in choice.near.levels[: level + 1])


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
    if ask.klass.problem:
        return FitError(ask.klass.problem, 0, ask.required, never=ask.klass.problem)
    if nodes.count == 0:
        return FitError(NO_NODES, 0, ask.required)
    if ask.klass.volumes.problem:
        return FitError(refusal_message(nodes.count, ask.klass.volumes.problem), 0, ask.required)
    why = None if ask.near is None else _topology_fit_error(nodes, ask, profile)
    if why is not None:
        return why
    with Transaction(nodes) as trial:
        placed = place_ask(nodes, trial, Ask(ask.klass, 0, ask.required, ask.where), profile)
        taken = placed.tolist() if placed is not None else []
    reasons, fits = filter_nodes(ask.klass, nodes, ask.where, profile).reasons, len(taken)
    if ask.near is not None and fits >= ask.required:
        return not_together_error(nodes, [ask])
    if fits:
        reasons[f"node(s) with room for only {fits} of {ask.required} pods of the gang"] = len(set(taken))
    return FitError(
        message=_sentences(fit_error_message(nodes.count, reasons), _flavor_lacks(nodes, ask, reasons)),
        fits=fits,
        wanted=ask.required,
        never=_never_fits(nodes, ask),
        details={reason: str(count) for reason, count in sorted(reasons.items()) if count},
    )


def not_together_error(nodes: NodeColumns, asks: Sequence[Ask]) -> FitError:
    """Say that pods that fit by themselves do not fit near one another; `asks` are those of one party."""
    required = sum(ask.required for ask in asks)
    near = asks[0].near
    assert near is not None  # they are to be near one another
    text = f"0/{nodes.count} nodes are available. {not_together_message(required, near.asked, len(asks))}."
    return FitError(text, max(ask.required for ask in asks), required)


def _topology_fit_error(nodes: NodeColumns, ask: Ask, profile: Profile) -> FitError | None:
    """Say why the required pods cannot be as near one another as they must be; None where that is not the reason."""
    assert ask.near is not None  # asked by the caller
    with Transaction(nodes) as trial:
        choice = TopologyChoice.of(nodes, ask.near, lambda: feasible_capacity(nodes, trial, ask, profile))
        found = topology_obstacle(nodes, choice, ask.required)
    if found is None:
        return None
    said = filter_nodes(ask.klass, nodes, ask.where, profile)
    if said.feasible.any():
        said.reasons["node(s) not near enough to others with room"] = int(said.feasible.sum())
    text = found.message
    if not found.never:
        flavor = _flavor_lacks(nodes, ask, said.reasons)
        text = _sentences(fit_error_message(nodes.count, said.reasons), flavor, f"{text}.")
    never = found.message if found.never else _never_fits(nodes, ask)
    return FitError(text, found.fits, ask.required, never, found.details)


def _flavor_lacks(nodes: NodeColumns, ask: Ask, reasons: Mapping[str, int]) -> str:
    """Say what a flavor asks of nodes, where some were ruled out by that."""
    said = node_affinity.flavor_lacks(nodes, ask.where) if reasons.get(node_affinity.NOT_OF_FLAVOR) else ""
    return f"{said}." if said else ""


def _sentences(*parts: str) -> str:
    return " ".join(filter(None, parts))


def fit_error_message(count: int, reasons: Mapping[str, int]) -> str:
    """Return the message of a pod that fits on none of so many nodes."""
    parts = sorted(f"{n} {reason}" for reason, n in reasons.items() if n)
    return f"0/{count} nodes are available: {', '.join(parts)}."


def refusal_message(count: int, why: str) -> str:
    """Return the message of a pod that none of so many nodes was asked for."""
    return f"0/{count} nodes are available: {why}."


def _never_fits(nodes: NodeColumns, ask: Ask) -> str:
    """Name what no node could mend: too large a pod, and claims that only one of several pods may use."""
    parts = [
        f"claim {claim} is ReadWriteOncePod, and {ask.required} pods of the gang use it"
        for claim in (ask.klass.volumes.once if ask.required > 1 else ())
    ]
    for name, largest in too_large(nodes, ask.klass.requests).items():
        asks, offers = describe(name, ask.klass.requests[name]), describe(name, largest)
        parts.append(f"a pod asks for {asks} {name}; the largest node offers {offers}")
    return "; ".join(parts)


def too_large(nodes: NodeColumns, requests: Mapping[str, int]) -> dict[str, int]:
    """Return of which resources a pod asks for more than any node offers, and the most that one does."""
    axis, offered = nodes.axis, nodes.allocatable
    largest = {name: int(offered[:, axis.column(name)].max(initial=0)) if name in axis else 0 for name in requests}
    return {name: most for name, most in largest.items() if requests[name] > most}
