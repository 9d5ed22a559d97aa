"""`tutti top nodes`: devices used and free, per model and node, and how large the holes are.

What nodes offer and what of it is free is worked out as one expression over columns each. All amounts are in
scheduling units: cpu in milli-cores, memory in bytes, everything else in whole units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.text import Text

from tutti.cli.views.drawing import BAD, FULL, GOOD, QUIET, WIDE, PageWidth, amount, bar, table
from tutti.cluster.capacity import UNSCHEDULABLE_TAINTS, taking_pods
from tutti.cluster.devices.troubles import pool_trouble
from tutti.engine.core_state import CoreState

MODEL_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-tpu-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "node.kubernetes.io/instance-type",
)
"""Node labels that tell models of devices apart, the most telling first: what vendors and clouds put there."""

_NOTES = 3


class NodeUse(msgspec.Struct, frozen=True, rename="camel"):
    """One node and one resource.

    Attributes:
        used: What the pods there have asked for, and what is reserved.
        free: What is left, whether or not pods may go there.
        open: Whether pods may go there: it is ready and not cordoned.
        notes: What keeps pods off: a cordon, and its taints.
    """

    node: str
    model: str
    resource: str
    allocatable: int
    used: int
    free: int
    open: bool
    notes: tuple[str, ...]


class ModelUse(msgspec.Struct, frozen=True, rename="camel"):
    """All nodes of one model, and one resource.

    Attributes:
        nodes: How many nodes there are; `open` of them take pods, and only these count for what is free.
        largest: The most that is free on any one node.
        fits: How many pods of a size fit at once, by size.
        holes: How many nodes have exactly so much free, by amount; those that are full are left out.
    """

    model: str
    resource: str
    nodes: int
    open: int
    allocatable: int
    used: int
    free: int
    largest: int
    fits: Mapping[int, int]
    holes: Mapping[int, int]


class CardUse(msgspec.Struct, frozen=True, rename="camel"):
    """One card that pods share.

    Attributes:
        memory, used_memory, hole: MiB; the hole is what one more pod could have of it at most.
        cores, used_cores: Percent of its compute.
        slots, used_slots: How many may use it, and do.
        note: Why nobody new goes there, or "".
    """

    node: str
    index: int
    id: str
    model: str
    memory: int
    used_memory: int
    hole: int
    cores: int
    used_cores: int
    slots: int
    used_slots: int
    note: str


class CardSum(msgspec.Struct, frozen=True, rename="camel"):
    """All cards that pods share: how far their memory is in pieces.

    Attributes:
        cards: How many there are; `whole` of them nobody uses.
        memory, used_memory, free: MiB.
        largest_hole: MiB, the most that is free on one card.
        fragmentation: In percent, how much of what is free is on cards that somebody uses: nobody can have it whole.
    """

    cards: int
    whole: int
    memory: int
    used_memory: int
    free: int
    largest_hole: int
    fragmentation: int


class PoolInTrouble(msgspec.Struct, frozen=True, rename="camel"):
    """A pool of devices (dynamic resource allocation) with which something is the matter."""

    driver: str
    pool: str
    problem: str


class NodeInTrouble(msgspec.Struct, frozen=True, rename="camel"):
    """A node of which something cannot be read: it offers nothing of that, or takes no new pods."""

    node: str
    problem: str


class Top(msgspec.Struct, frozen=True, rename="camel"):
    """What nodes offer.

    Attributes:
        nodes: All that offer any of the resources asked for.
        unreadable: Nodes of which something cannot be read, by name.
        pools: Pools of devices that are in trouble.
        cards: The cards that pods share.
        all_cards: The same together; None where pods share none.
    """

    models: tuple[ModelUse, ...]
    nodes: tuple[NodeUse, ...]
    pools: tuple[PoolInTrouble, ...] = ()
    cards: tuple[CardUse, ...] = ()
    all_cards: CardSum | None = None
    unreadable: tuple[NodeInTrouble, ...] = ()


def offered(state: CoreState) -> list[str]:
    """Return the resources that any node offers, by name."""
    nodes = state.cluster.nodes
    is_offered = nodes.allocatable.sum(axis=0) > 0
    return sorted(name for column, name in enumerate(nodes.resource_index.names) if is_offered[column])


def devices(state: CoreState) -> list[str]:
    """Return the resources of devices that any node offers, by name; cpu and memory where there are none."""
    return [name for name in offered(state) if "/" in name] or ["cpu", "memory"]


def top(
    state: CoreState,
    resources: Sequence[str],
    label: str | None = None,
    shard_of: Callable[[str], str] = lambda _: "",
) -> Top:
    """Return what nodes offer of these resources.

    Args:
        state: What an engine knows.
        resources: What is asked about.
        label: Tells models apart, in place of the labels that usually do.
        shard_of: Returns the shard that has a node; "" where there are no shards.
    """
    nodes = state.cluster.nodes
    rows = np.array(sorted(nodes.rows.values(), key=lambda row: nodes.names[row]), dtype=np.int64)
    models = [_model(nodes.labels[row], label) for row in rows.tolist()]
    open_to = taking_pods(nodes, ())[rows]
    by_node: list[NodeUse] = []
    by_model: list[ModelUse] = []
    for resource in resources:
        column = nodes.resource_index.column(resource)
        if column >= nodes.allocatable.shape[1]:
            continue  # nobody has ever offered any
        offers, used = nodes.allocatable[rows, column], nodes.requested[rows, column]
        which = np.flatnonzero(offers)
        by_node += [
            _node(state, int(rows[at]), models[at], resource, int(offers[at]), int(used[at]), bool(open_to[at]))
            for at in which.tolist()
        ]
        for model in sorted({models[at] for at in which.tolist()}):
            mine = np.array([at for at in which.tolist() if models[at] == model], dtype=np.int64)
            by_model.append(_of_model(model, resource, offers[mine], used[mine], open_to[mine]))
    by_node = [_in_shard(one, shard_of(one.node)) for one in by_node]
    cards = _cards(state)
    told = _sum_of(cards) if cards else None
    unreadable = tuple(NodeInTrouble(name, why) for name, why in sorted(state.cluster.unreadable.items()))
    return Top(tuple(by_model), tuple(by_node), tuple(_pools(state)), cards, told, unreadable)


def models_of(found: Top) -> Top:
    """Return the same without single nodes and cards."""
    return msgspec.structs.replace(found, nodes=(), cards=())


def _in_shard(use: NodeUse, shard: str) -> NodeUse:
    return msgspec.structs.replace(use, notes=(*use.notes, f"shard {shard}")) if shard else use


def _cards(state: CoreState) -> tuple[CardUse, ...]:
    """Return the cards that pods share, by the name of their node and their number there."""
    nodes, found = state.cluster.nodes, state.cluster.nodes.cards
    if not found:
        return ()
    found.sync()
    out: list[CardUse] = []
    for name in sorted(found.told):
        row = nodes.rows.get(name)
        for at, card in enumerate(found.cards[row] if row is not None else ()):
            used = int(found.used_memory[row, at]), int(found.used_cores[row, at]), int(found.used_slots[row, at])
            is_open = not card.closed and used[2] < card.slots
            hole = max(0, card.memory - used[0]) if is_open else 0
            sizes = (card.memory, used[0], hole, card.cores, used[1], card.slots, used[2])
            out.append(CardUse(name, card.index, card.id, card.model, *sizes, card.closed))
    return tuple(out)


def _sum_of(cards: Sequence[CardUse]) -> CardSum:
    free = sum(one.hole for one in cards)
    begun = sum(one.hole for one in cards if one.used_slots)
    return CardSum(
        len(cards),
        sum(not one.used_slots and not one.note for one in cards),
        sum(one.memory for one in cards),
        sum(one.used_memory for one in cards),
        free,
        max((one.hole for one in cards), default=0),
        begun * 100 // free if free else 0,
    )


def _pools(state: CoreState) -> Iterator[PoolInTrouble]:
    devices = state.cluster.nodes.devices
    for key in sorted({*devices.catalog.pools(), *devices.ledger.pools()}):
        problem = pool_trouble(devices.catalog.slices_of(key), devices.ledger.held_of(key))
        if problem:
            yield PoolInTrouble(*key, problem)


def _node(state: CoreState, row: int, model: str, resource: str, offers: int, used: int, is_open: bool) -> NodeUse:
    nodes = state.cluster.nodes
    notes = ["cordoned"] if nodes.unschedulable[row] else []
    for taint in nodes.taint_sets[nodes.taint_code[row]]:
        if taint.key in UNSCHEDULABLE_TAINTS and taint.key != "node.kubernetes.io/unschedulable":
            notes.append(taint.key.removeprefix("node.kubernetes.io/"))
        elif taint.key not in UNSCHEDULABLE_TAINTS:
            value = f"={taint.value}" if taint.value else ""
            notes.append(f"{taint.key}{value}:{taint.effect}")
    more = [f"and {len(notes) - _NOTES} more"] if len(notes) > _NOTES else []
    said = tuple(dict.fromkeys([*notes[:_NOTES], *more]))
    return NodeUse(nodes.names[row], model, resource, offers, used, max(0, offers - used), is_open, said)


def _of_model(
    model: str, resource: str, offers: NDArray[np.int64], used: NDArray[np.int64], is_open: NDArray[np.bool_]
) -> ModelUse:
    free = np.maximum(offers - used, 0)[is_open]
    sizes = _sizes(int(offers.max()), whole="/" in resource)
    amounts, counts = np.unique(free[free > 0], return_counts=True)
    return ModelUse(
        model,
        resource,
        len(offers),
        int(is_open.sum()),
        int(offers.sum()),
        int(used.sum()),
        int(free.sum()),
        int(free.max(initial=0)),
        {size: int((free // size).sum()) for size in sizes},
        dict(zip(amounts.tolist(), counts.tolist(), strict=True)) if "/" in resource else {},
    )


def _sizes(most: int, *, whole: bool) -> list[int]:
    """Return the sizes of pods to look at: of devices the powers of two up to a whole node, and a whole node."""
    if not whole:
        return []
    powers = [1 << power for power in range(most.bit_length()) if 1 << power <= most]
    return [*powers, *([most] if most not in powers else [])]


def _model(labels: Mapping[str, str], label: str | None) -> str:
    """Return what a node's labels say of its model, or ""."""
    return next((labels[key] for key in ((label,) if label else MODEL_LABELS) if key in labels), "")


_CELLS = 16


def draw_top(found: Top, page: PageWidth = WIDE) -> RenderableType:
    """Draw what models offer, then each node and card, as far as these are told of."""
    parts: list[RenderableType] = [_models(found, page) if found.models else Text("No node offers any of that.")]
    if found.nodes:
        parts += [Text(), _nodes(found, page)]
    if found.all_cards is not None:
        parts += [Text(), _card_sum(found.all_cards)]
        if found.cards:
            parts.append(_card_table(found.cards, page))
    if found.pools:
        parts += [Text(), _pools_in_trouble(found, page)]
    if found.unreadable:
        parts += [Text(), _unreadable(found, page)]
    return Group(*parts)


def _card_sum(one: CardSum) -> RenderableType:
    return Text(
        f"CARDS: {one.whole} of {one.cards} whole, {one.used_memory} of {one.memory} MiB used; the largest hole is "
        f"{one.largest_hole} MiB, and {one.fragmentation} % of what is free is on cards that somebody uses"
    )


def _card_table(cards: Sequence[CardUse], page: PageWidth) -> RenderableType:
    numbers = ("CARD", "USED MiB", "OF", "HOLE", "CORES", "SLOTS")
    drawn = table("NODE", "CARD", "MODEL", "USE", *numbers[1:], "", right=numbers, wraps=("",), page=page)
    for one in cards:
        drawn.add_row(
            one.node,
            str(one.index),
            one.model or "-",
            _bar(one.used_memory, one.memory, page),
            str(one.used_memory),
            str(one.memory),
            str(one.hole),
            f"{one.used_cores}/{one.cores}",
            f"{one.used_slots}/{one.slots}",
            Text(one.note, BAD),
        )
    return drawn


def _pools_in_trouble(found: Top, page: PageWidth) -> RenderableType:
    drawn = table("DRIVER", "POOL", "TROUBLE", wraps=("TROUBLE",), page=page)
    for one in found.pools:
        drawn.add_row(one.driver, one.pool, Text(one.problem, BAD))
    return drawn


def _unreadable(found: Top, page: PageWidth) -> RenderableType:
    drawn = table("NODE", "TROUBLE", wraps=("TROUBLE",), page=page)
    for one in found.unreadable:
        drawn.add_row(one.node, Text(one.problem, BAD))
    return drawn


def _models(found: Top, page: PageWidth) -> RenderableType:
    numbers = ("NODES", "USED", "OF", "FREE", "LARGEST")
    texts = ("PODS THAT FIT", "HOLES")
    drawn = table("MODEL", "RESOURCE", "NODES", "USE", *numbers[1:], *texts, right=numbers, wraps=texts, page=page)
    for one in found.models:
        drawn.add_row(
            one.model or "-",
            one.resource,
            str(one.open) if one.open == one.nodes else f"{one.open} of {one.nodes}",
            _bar(one.used, one.allocatable, page),
            *(amount(one.resource, units) for units in (one.used, one.allocatable, one.free, one.largest)),
            ", ".join(f"{pods} of {size}" for size, pods in one.fits.items()) or "-",
            _holes(one),
        )
    return drawn


def _nodes(found: Top, page: PageWidth) -> RenderableType:
    numbers = ("USED", "OF", "FREE")
    drawn = table("NODE", "MODEL", "RESOURCE", "USE", *numbers, "", right=numbers, wraps=("",), page=page)
    for one in found.nodes:
        style = "" if one.open else QUIET
        drawn.add_row(
            Text(one.node, style),
            Text(one.model or "-", style),
            Text(one.resource, style),
            _bar(one.used, one.allocatable, page),
            *(Text(amount(one.resource, units), style) for units in (one.used, one.allocatable, one.free)),
            _notes(one),
        )
    return drawn


def _bar(used: int, whole: int, page: PageWidth) -> Text:
    """One column for each device, where there are few."""
    most = page.cells(_CELLS)
    cells = whole if 1 < whole <= most else most
    return bar([(FULL, GOOD if used <= whole else BAD, used)], whole=whole, cells=cells)


def _holes(one: ModelUse) -> str:
    return ", ".join(f"{nodes} with {amount(one.resource, free)}" for free, nodes in one.holes.items()) or "-"


def _notes(one: NodeUse) -> Text:
    return Text(", ".join(one.notes), BAD if not one.open else QUIET)
