"""Cards that pods share, and what pods ask of them: one model for whoever hands out parts of GPUs.

A card has memory, cores (100 are all of its compute) and slots (so many may use it at once), and links to other cards
of its node. A container asks for a number of cards, of each the same: memory as an amount or as a part of the card, and
cores. Amounts of memory are MiB, as HAMi and KAI count them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

MOST_CARDS: Final = 64
"""So many cards of one node are read, and so many may one container ask for; no machine has as many."""
MOST_MEMORY: Final = 2**31 - 1
"""MiB: HAMi keeps it in 32 bits."""
ALL_CORES: Final = 100
WHOLE: Final = 100
"""Percent of a card's memory."""


class Card(msgspec.Struct, frozen=True, omit_defaults=True):
    """One card of a node.

    Attributes:
        id: Its UUID.
        index: Its number on the node.
        memory: MiB.
        cores: Percent of its compute that may be given out; 100, unless the administrator scales it.
        slots: How many may use it at once.
        model: What its maker calls it.
        numa: The number of its NUMA node.
        closed: Why nobody new goes there, or "".
    """

    id: str
    index: int = 0
    memory: int = 0
    cores: int = ALL_CORES
    slots: int = 1
    model: str = ""
    numa: int = 0
    mode: str = ""
    closed: str = ""


class NodeCards(msgspec.Struct, frozen=True, omit_defaults=True):
    """The cards of one node.

    Attributes:
        cards: In the order in which they are told.
        links: How well two cards are linked, by their ids; more is better. What is not told is 0.
        problem: Why they cannot be used, or "".
    """

    cards: tuple[Card, ...] = ()
    links: dict[str, dict[str, int]] = {}
    problem: str = ""


class CardDemand(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one container asks for.

    Attributes:
        count: How many cards, each another one.
        memory: MiB of each; 0 where `percent` says it.
        percent: Of the memory of each.
        cores: Percent of the compute of each; 100: the card for itself. 0: what others leave.
    """

    count: int
    memory: int = 0
    percent: int = 0
    cores: int = 0

    def memory_of(self, card_memory: int) -> int:
        """Return how much of a card of so much memory it is, in MiB; a part is rounded down, as HAMi does."""
        return self.memory or card_memory * self.percent // WHOLE


class CardWishes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which cards a pod may have, and which are better.

    Attributes:
        models: Parts of the names of models, in capitals; of one of them. None said: of any.
        other_models: The same; of none of them.
        ids: Of one of these; none said: any.
        other_ids: None of these.
        mode: Only cards whose mode stands in this text; "": any.
        one_numa_node: Whether all cards of a container are to be of one NUMA node.
        policies: What orders cards, of `binpack`, `spread`, `mutex`, `topology-aware` and `numa`.
        spread_nodes: Whether the emptiest node is best, and not the one with the tightest hole.
    """

    models: tuple[str, ...] = ()
    other_models: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    other_ids: tuple[str, ...] = ()
    mode: str = ""
    one_numa_node: bool = False
    policies: tuple[str, ...] = ()
    spread_nodes: bool = False

    @property
    def narrow(self) -> bool:
        """Whether not all cards will do."""
        return bool(self.models or self.other_models or self.ids or self.other_ids or self.mode)

    def allow(self, card: Card) -> bool:
        """Whether a pod may have a card."""
        model = card.model.upper()
        return (
            (not self.models or any(one in model for one in self.models))
            and not any(one in model for one in self.other_models)
            and (not self.ids or card.id in self.ids)
            and card.id not in self.other_ids
            and (not self.mode or card.mode in self.mode)
        )


ANY_CARD: Final = CardWishes()


class CardNeeds(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a pod asks of the cards of its node.

    Attributes:
        containers: Per container what it asks for, init containers first; None: nothing.
        first: How many of these are init containers: they run before the others, one after another.
        problem: Why such pods can never be placed, or "".
        reason: The same in a word.
    """

    containers: tuple[CardDemand | None, ...] = ()
    first: int = 0
    wishes: CardWishes = ANY_CARD
    problem: str = ""
    reason: str = "InvalidPod"

    @property
    def asked(self) -> bool:
        """Whether any container asks for any."""
        return any(one is not None for one in self.containers)

    @property
    def whole(self) -> bool:
        """Whether nothing but whole cards is asked for, of any kind: nodes whose cards nobody shares will do."""
        return self.wishes == ANY_CARD and all(one is None or one.percent == WHOLE for one in self.containers)

    @property
    def single(self) -> CardDemand | None:
        """What the only container asks for that asks for any; None where several do, or an init container does."""
        found = [(at, one) for at, one in enumerate(self.containers) if one is not None]
        return found[0][1] if len(found) == 1 and found[0][0] >= self.first else None


NO_CARDS: Final = CardNeeds()


class CardPart(msgspec.Struct, frozen=True, array_like=True):
    """What a container has of one card: MiB of its memory, and percent of its compute."""

    card: str
    memory: int
    cores: int


Parts = tuple[tuple[CardPart, ...], ...]
"""Per container what it has, init containers first."""


def peak_use(parts: Parts, first: int) -> dict[str, tuple[int, int, int]]:
    """Return what a pod takes of each card, by its id: MiB, percent of compute, slots.

    Init containers run one after another, and before the others: of these the largest counts, of the others the sum
    (HAMi 2.9, pkg/device/initContainer.go, CollapseInitContainerUsage).

    Args:
        parts: What its containers have.
        first: How many of these are init containers.
    """
    begun: dict[str, tuple[int, int, int]] = {}
    running: dict[str, tuple[int, int, int]] = {}
    for at, container in enumerate(parts):
        for part in container:
            known = (begun if at < first else running).get(part.card, (0, 0, 0))
            if at < first:
                begun[part.card] = (max(known[0], part.memory), max(known[1], part.cores), 1)
            else:
                running[part.card] = (known[0] + part.memory, known[1] + part.cores, known[2] + 1)
    return {card: _larger(begun.get(card, (0, 0, 0)), running.get(card, (0, 0, 0))) for card in {**begun, **running}}


def parts_as_asked(parts: Parts, needs: CardNeeds, told: NodeCards | None) -> Parts:
    """Return the cards that a pod says it has, with as much of each as it asks for, and no more cards than that.

    Args:
        parts: What it says; of a card that nobody tells of a percentage is as much as it says.
        needs: What it asks for.
        told: The cards of its node.
    """
    memory = {} if told is None else {card.id: card.memory for card in told.cards}
    out: list[tuple[CardPart, ...]] = []
    for at, demand in enumerate(needs.containers):
        if demand is None:
            out.append(())
            continue
        said = {part.card: part.memory for part in (parts[at] if at < len(parts) else ())}
        named = list(said)[: demand.count]
        sizes = (demand.memory_of(memory[card]) if card in memory else demand.memory or said[card] for card in named)
        out.append(tuple(CardPart(card, size, demand.cores) for card, size in zip(named, sizes, strict=True)))
    return tuple(out)


def overdrawn_card(left: Mapping[str, tuple[int, int, int]], uses: Sequence[Mapping[str, tuple[int, int, int]]]) -> str:
    """Return which card has less left than is taken of it altogether, in words; "" where none has.

    Args:
        left: What is left of cards, by their ids: MiB, percent of compute, slots.
        uses: What pods take of cards, in the same way; other cards do not count.
    """
    for card, free in left.items():
        mine = [use[card] for use in uses if card in use]
        memory, cores, slots = (sum(amounts) for amounts in zip(*mine, strict=True)) if mine else (0, 0, 0)
        if memory > free[0] or cores > free[1] or slots > free[2]:
            return (
                f"{memory} MiB, {cores} percent of compute and {slots} slots of card {card} were given to others "
                f"meanwhile, and it had {free[0]}, {free[1]} and {free[2]} left"
            )
    return ""


def _larger(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2])


def totals(needs: CardNeeds) -> Mapping[str, int]:
    """Return what all containers of a pod ask for together, by what is counted: memory, percent, cores.

    As for other resources, the containers that run together are added up, and an init container that asks for more
    counts instead.
    """
    running = [one for one in needs.containers[needs.first :] if one is not None]
    begun = [one for one in needs.containers[: needs.first] if one is not None]
    out = {}
    for name in ("memory", "percent", "cores"):
        together = sum(one.count * getattr(one, name) for one in running)
        out[name] = max([together, *(one.count * getattr(one, name) for one in begun)])
    return out
