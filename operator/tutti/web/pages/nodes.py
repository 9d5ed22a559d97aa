"""Nodes: what models offer and how large the holes are, where nodes are and how full, and devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tutti.api.messages import counted
from tutti.cli.views.drawing import amount
from tutti.cli.views.node_map import DevicePoolUse, DomainBox, device_pools, domain_boxes, topologies_of
from tutti.cli.views.nodes import CardUse, ModelUse, NodeUse, Top
from tutti.web.access import Viewer
from tutti.web.documents import NodeSquares, PageDocument, PageFilter, PageRow, PageSection, columns, said
from tutti.web.pages.asking import NotShown, PageRequest, use_bar

MOST_LISTED = 200
"""So many nodes are listed by name; the boxes have all of them."""


def nodes_page(asked: PageRequest) -> PageDocument:
    """Return what nodes offer.

    Raises:
        NotShown: The viewer may not list nodes.
    """
    if not asked.viewer.nodes:
        raise NotShown("you may not list nodes, so none are shown")
    offer, state = asked.answers.offer, asked.answers.untried
    resources = list(dict.fromkeys(one.resource for one in offer.models))
    resource = asked.query.get("resource", "")
    resource = resource if resource in resources else next(iter(resources), "")
    known = topologies_of(state)
    topology = asked.query.get("topology", "")
    topology = topology if topology in known else next(iter(known), "")
    words = asked.query.get("node", "")
    models = list(dict.fromkeys(one.model for one in offer.models if one.resource == resource))
    model = asked.query.get("model", "")
    model = model if model in models else ""
    those = [one for one in offer.nodes if one.resource == resource and model in ("", one.model)]
    boxes = domain_boxes(state, those, known.get(topology, ()))
    pools = device_pools(state)
    sections = [
        _models_section(offer),
        PageSection(
            "boxes",
            "boxes",
            f"Where {model or resource or 'room'} is in use",
            tuple(_box_rows(boxes, resource, 0, "")),
            note=_BOXES_NOTE,
            empty="No node offers any of that.",
        ),
        _list_section(those, words),
        *([_pools_section(pools, offer)] if pools or offer.pools else []),
        *([_cards_section(offer)] if offer.cards else []),
        *([_unreadable_section(offer, asked.viewer)] if offer.unreadable else []),
    ]
    filters = [PageFilter("node", "Node", words)]
    if len(models) > 1:
        filters.insert(0, PageFilter("model", "Model", model, (("", "all"), *((one, one) for one in models if one))))
    if len(resources) > 1:
        filters.insert(0, PageFilter("resource", "Resource", resource, tuple((one, one) for one in resources)))
    if len(known) > 1:
        filters.append(PageFilter("topology", "Topology", topology, tuple((one, one) for one in known)))
    total = f"{counted(boxes.nodes, 'node')}, {boxes.open} of them open to pods: "
    total += f"{amount(resource, boxes.used)} of {amount(resource, boxes.allocatable)} {resource} used"
    return PageDocument("Nodes", total, tuple(sections), tuple(filters), asked.problems())


_MODELS_NOTE = "A hole is what is free on one node. Of pods that fit: how many, if each asked for so many."
_BOXES_NOTE = "A square is a node: empty, in part used, full (a cross), or closed to pods (struck out)."


def _models_section(offer: Top) -> PageSection:
    titles = columns(
        "Model", "Resource", "Nodes", "Use", "Used", "Of", "Free", "Largest hole", "Pods that fit", "Holes",
        numbers=("Used", "Of", "Free", "Largest hole"),
    )  # fmt: skip
    rows = tuple(_model_row(one) for one in offer.models)
    return PageSection("models", "table", "Models", rows, titles, _MODELS_NOTE, "No node offers any of that.")


def _model_row(one: ModelUse) -> PageRow:
    def units(many: int) -> str:
        return amount(one.resource, many)

    holes = ", ".join(f"{nodes} with {units(free)}" for free, nodes in one.holes.items())
    fits = ", ".join(f"{pods} of {size}" for size, pods in one.fits.items())
    return PageRow(
        f"{one.model}/{one.resource}",
        (
            said(one.model or "-"),
            said(one.resource),
            said(str(one.nodes) if one.open == one.nodes else f"{one.open} of {one.nodes}"),
            use_bar([("used", one.used)], one.allocatable, f"{units(one.used)} of {units(one.allocatable)} used"),
            *(said(units(many)) for many in (one.used, one.allocatable, one.free, one.largest)),
            said(fits or "-"),
            said(holes or "-"),
        ),
    )


def _box_rows(box: DomainBox, resource: str, depth: int, above: str) -> Iterator[PageRow]:
    if not box.nodes:
        return
    key = f"{above}/{box.name}"
    name = box.name or "all nodes"
    free = f"{amount(resource, box.free)} free, at most {amount(resource, box.largest)} on one node"
    used = f"{amount(resource, box.used)} of {amount(resource, box.allocatable)} used"
    words = f"{counted(box.nodes, 'node')}, {used}; {free}"
    cells = said(name, "strong"), said(words), use_bar([("used", box.used)], box.allocatable, "")
    yield PageRow(key, cells, depth, squares=_squares(box.members) if box.members else None)
    for child in box.children:
        yield from _box_rows(child, resource, depth + 1, key)


def _squares(members: Sequence[NodeUse]) -> NodeSquares:
    return NodeSquares(
        tuple(one.node for one in members),
        tuple(one.used for one in members),
        tuple(one.allocatable for one in members),
        "".join(_state(one) for one in members),
        {at: ", ".join(one.notes) for at, one in enumerate(members) if one.notes},
    )


def _state(one: NodeUse) -> str:
    if not one.open:
        return "c"
    return "e" if not one.used else "p" if one.used < one.allocatable else "f"


def _list_section(those: Sequence[NodeUse], words: str) -> PageSection:
    chosen = [one for one in those if words.lower() in one.node.lower()]
    chosen.sort(key=lambda one: (not one.notes, -one.free, one.node))
    rows = tuple(
        PageRow(
            one.node,
            (
                said(one.node, "" if one.open else "quiet"),
                said(one.model or "-"),
                use_bar(
                    [("used" if one.used <= one.allocatable else "over", one.used)],
                    one.allocatable,
                    f"{amount(one.resource, one.used)} of {amount(one.resource, one.allocatable)} used",
                ),
                said(amount(one.resource, one.used)),
                said(amount(one.resource, one.allocatable)),
                said(amount(one.resource, one.free)),
                said(", ".join(one.notes), "quiet" if one.open else "bad"),
            ),
        )
        for one in chosen[:MOST_LISTED]
    )
    titles = columns("Node", "Model", "Use", "Used", "Of", "Free", "Notes", numbers=("Used", "Of", "Free"))
    note = "Those with something the matter first, then those with the most room."
    if len(chosen) > MOST_LISTED:
        note += f" The first {MOST_LISTED} of {len(chosen)} are listed."
    return PageSection("nodes", "table", "Nodes", rows, titles, note, "No node has that in its name.")


def _pools_section(pools: Sequence[DevicePoolUse], offer: Top) -> PageSection:
    trouble = {(one.driver, one.pool): one.problem for one in offer.pools}
    rows = [
        PageRow(
            f"{one.driver}/{one.pool}",
            (
                said(one.driver),
                said(one.pool),
                said(one.node),
                use_bar([("used", one.held)], one.devices, f"{one.held} of {one.devices} devices taken"),
                said(one.held),
                said(one.devices),
                said(trouble.pop((one.driver, one.pool), ""), "bad"),
            ),
        )
        for one in pools
    ]
    rows += [
        PageRow("/".join(key), (said(key[0]), said(key[1]), (), (), (), (), said(why, "bad")))
        for key, why in trouble.items()
    ]
    titles = columns("Driver", "Pool", "Node", "Use", "Taken", "Devices", "Trouble", numbers=("Taken", "Devices"))
    return PageSection("devices", "table", "Devices", tuple(rows), titles)


def _unreadable_section(offer: Top, viewer: Viewer) -> PageSection:
    def trouble(problem: str) -> str:  # which may name anybody's pod
        return problem if viewer.sees_all else "something of it, or of a pod on it, cannot be read"

    shown = [(one.node, trouble(one.problem)) for one in offer.unreadable]
    rows = tuple(PageRow(node, (said(node, "strong"), said(text, "bad"))) for node, text in shown)
    return PageSection("unreadable", "table", "Nodes that cannot be read", rows, columns("Node", "Trouble"))


def _cards_section(offer: Top) -> PageSection:
    titles = columns(
        "Node", "Card", "Model", "Use", "Used MiB", "Of", "Largest part", "Compute %", "Users", "Notes",
        numbers=("Card", "Used MiB", "Of", "Largest part", "Compute %", "Users"),
    )  # fmt: skip
    total = offer.all_cards
    note = "" if total is None else (
        f"{total.whole} of {total.cards} cards whole; {total.fragmentation} % of what is free is on cards in use"
    )  # fmt: skip
    rows = tuple(_card_row(one) for one in offer.cards[:MOST_LISTED])
    return PageSection("cards", "table", "Cards that pods share", rows, titles, note)


def _card_row(one: CardUse) -> PageRow:
    words = f"{one.used_memory} of {one.memory} MiB used"
    return PageRow(
        f"{one.node}/{one.index}",
        (
            said(one.node),
            said(one.index),
            said(one.model or "-"),
            use_bar([("used", one.used_memory)], one.memory, words),
            said(one.used_memory),
            said(one.memory),
            said(one.hole),
            said(f"{one.used_cores}/{one.cores}"),
            said(f"{one.used_slots}/{one.slots}"),
            said(one.note, "bad"),
        ),
    )
