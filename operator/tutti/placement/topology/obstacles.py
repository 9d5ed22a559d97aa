"""Why pods cannot be near one another: which domain comes closest, and what it has room for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tutti.api.messages import all_of
from tutti.cluster.nodes import NodeColumns
from tutti.placement.topology.fitting import Spots, TooFew, fit
from tutti.placement.topology.joining import home_of
from tutti.placement.topology.near import Nearby, whole
from tutti.placement.topology.request import TopologyRequest, Wish


@dataclass(frozen=True, slots=True)
class NotNear:
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


def obstacle(nodes: NodeColumns, choice: Nearby, required: int) -> NotNear | None:
    """Say why so many pods cannot be near one another as things are; None where that is not what is missing."""
    near, tree = choice.near, choice.tree
    asked = choice.wish(required)
    if isinstance(asked, str):
        return NotNear(asked, never=True)
    if not len(tree.samples):
        labels = " and ".join(near.levels)
        return NotNear(f"no node has the label{'s' * (len(near.levels) > 1)} {labels}", never=True)
    where = home_of(choice, asked) if near.there else choice.within
    if where is None:
        homes = tree.domains_at(np.array(near.there, dtype=np.int64), asked.limit)
        names = ", ".join(_name(nodes, choice, int(home), asked.limit) for home in homes)
        level = near.levels[asked.limit]
        return NotNear(f"All must be in one {level} domain, and the members that run are in {len(homes)}: {names}")
    found = fit(tree, choice.rooms(where, asked), whole(asked))
    return None if isinstance(found, Spots) else _tell(nodes, choice, asked, found)


def _tell(nodes: NodeColumns, choice: Nearby, asked: Wish, found: TooFew) -> NotNear | None:
    level = choice.near.levels[found.level]
    fits = min(found.fits * asked.size, asked.count)
    slices = f" in slices of {asked.size}" if asked.size > 1 else ""
    if found.domain < 0 or found.level != asked.limit:
        if not slices:
            return None
        kept = choice.near.levels[asked.slice_level]
        text = f"There is room for only {fits} of {asked.count} pods{slices}, each within one {kept} domain"
        return NotNear(text, fits, details={"sliceLevel": kept, "sliceSize": str(asked.size)})
    name = _name(nodes, choice, found.domain, found.level)
    count = len(choice.tree.samples_of(found.level))
    details = {"level": level, "domains": str(count), "bestDomain": name}
    if choice.near.there:
        name = _name(nodes, choice, int(_homes(choice, found.level)[0]), found.level)
        text = f"Its other members are in {level} {name}, which has room for {fits} of {asked.count} more{slices}"
        return NotNear(text, fits, details={**details, "bestDomain": name})
    text = f"No {level} domain has room for {all_of(asked.count, 'pod')}{slices}"
    return NotNear(f"{text}; the best of {count}, {name}, has room for {fits}", fits, details=details)


def _homes(choice: Nearby, level: int) -> list[int]:
    homes: list[int] = choice.tree.domains_at(np.array(choice.near.there, dtype=np.int64), level).tolist()
    return homes


def _name(nodes: NodeColumns, choice: Nearby, domain: int, level: int) -> str:
    """Name a domain by its values, the widest level first."""
    labels = nodes.labels[int(choice.tree.samples_of(level)[domain])]
    return "/".join(labels[key] for key in choice.near.levels[: level + 1])


def apart(required: int, asked: TopologyRequest, kinds: int) -> str:
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
