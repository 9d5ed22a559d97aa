"""Who has which parts of cards: pods on nodes, pods that have a node in memory only, and room held for others.

What a transaction chooses is earmarked until the pods of the class are assumed to be there, or it is rolled back. From
then on a pod has what it was given until it has no place any more, whatever its annotations come to say. Of pods that
this process has not placed, these say what they have: so it is after a restart, and for pods of HAMi's own scheduler.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import count

from tutti.api.cards import NO_CARDS, CardNeeds, Parts, parts_as_asked
from tutti.api.core import Pod
from tutti.api.hami import ALLOCATED, ALLOCATING, BIND_PHASE, BOUND_AT, NODE, read_parts, read_seconds
from tutti.cluster.cards.columns import CardColumns, Grant
from tutti.cluster.cards.fitting import choose_parts
from tutti.cluster.classes import PodClass
from tutti.cluster.placed_pods import Hold
from tutti.cluster.pods import AssumedAlike, PodKey, PodRecord


class CardHolders:
    """Keeps what is taken of cards.

    Attributes:
        allocating: By node, the pods that their kubelet has not started and whose plugin has not answered yet, and
            since when, Unix seconds.
    """

    def __init__(self, columns: CardColumns) -> None:
        self._columns = columns
        self._earmarks: dict[tuple[bytes, str], list[int]] = {}
        self._numbers = count()
        self.allocating: dict[str, dict[PodKey, float]] = {}
        self._untold: dict[str, dict[PodKey, tuple[Parts, CardNeeds]]] = {}

    def allot(self, pod_class: PodClass, row: int, node: str, number: int) -> int:
        """Keep parts of cards for the next pods of a class that are assumed on a row; returns for how many of them."""
        grants = choose_parts(self._columns, pod_class.cards, row, node, number)
        for grant in grants:
            mark = next(self._numbers)
            self._columns.take(mark, grant)
            self._earmarks.setdefault((pod_class.signature, node), []).append(mark)
        return len(grants)

    def withdraw(self, pod_class: PodClass, node: str) -> None:
        """Undo the last that was allotted for a class on a node."""
        marks = self._earmarks[pod_class.signature, node]
        self._columns.free(marks.pop(), node)
        if not marks:
            del self._earmarks[pod_class.signature, node]

    def pledge(self, pods: AssumedAlike) -> None:
        """Give pods what was kept for their class on the nodes where they are assumed."""
        if pods.pod_class.cards is not NO_CARDS:
            for record in pods.records:
                self._hand_over(pods.pod_class.signature, record.assumed, record.key)

    def of(self, record: PodRecord) -> Grant | None:
        """Return what a pod has on its node."""
        return self._columns.of(record.key, record.place)

    def pods_on(self, name: str) -> Iterator[PodKey]:
        """Yield the pods that have parts of cards of a node, or are to get them."""
        for who in self._columns.on_node(name):
            match who:
                case (str(namespace), str(pod)):
                    yield namespace, pod
                case _:
                    continue  # room that is held for pods to come

    def seen(self, pod: Pod, record: PodRecord) -> None:
        """Take in what a pod on a node says of the cards that it has, unless that is known better.

        Which cards it has, it says; how much of them is what it asks for, which quota and the kubelet go by as well.
        """
        said = pod.metadata.annotations
        is_new = bool(record.node) and record.started is None and not record.terminated and record.pod_class.cards.asked
        if is_new and said.get(BIND_PHASE) == ALLOCATING and said.get(NODE) == record.node:
            self.allocating.setdefault(record.node, {})[record.key] = read_seconds(said.get(BOUND_AT, ""))
        else:
            self._answered(record.key, record.node)
        needs = record.pod_class.cards
        if not record.node or record.terminated or not needs.asked or self.of(record) is not None:
            return  # who asks for no cards is given none by the kubelet, whatever he says
        if ALLOCATED in said and said.get(NODE) == record.node:
            number = len(pod.spec.init_containers) + len(pod.spec.containers)
            stated = read_parts(said, number)
            if any(stated):
                self._untold.setdefault(record.node, {})[record.key] = stated, needs
                self.node_told(record.node)

    def node_told(self, name: str) -> None:
        """Work out what pods have whose cards their node had not told of: a part of a card needs the card's memory."""
        told = self._columns.told.get(name)
        known = {card.id for card in told.cards} if told is not None else set[str]()
        for key, (stated, needs) in list(self._untold.get(name, {}).items()):
            parts = parts_as_asked(stated, needs, told)
            self._columns.free(key, name)
            if any(parts):
                self._columns.take(key, Grant(name, parts, needs.first))
            if all(part.card in known for mine in parts for part in mine):
                self._forget(key, name)

    def release(self, key: PodKey, node: str) -> None:
        """Free what a pod has on a node that it leaves."""
        self._answered(key, node)
        self._forget(key, node)
        self._columns.free(key, node)

    def hold(self, hold: Hold, pod_class: PodClass) -> None:
        """Keep what was kept for a class on a node for the pod that room is held for."""
        self._hand_over(pod_class.signature, hold[0], hold)

    def adopt(self, hold: Hold, pod_class: PodClass) -> None:
        """Keep what held room has for the next pod of a class that is assumed there."""
        grant = self._columns.free(hold, hold[0])
        if grant is not None:
            mark = next(self._numbers)
            self._columns.take(mark, grant)
            self._earmarks.setdefault((pod_class.signature, hold[0]), []).append(mark)

    def end_hold(self, hold: Hold) -> None:
        """Free what held room has."""
        self._columns.free(hold, hold[0])

    def lend(self, hold: Hold, *, back: bool) -> None:
        """Have what held room has be free for a while, or held again."""
        self._columns.lift(hold, hold[0], back=back)

    def lose_node(self, name: str) -> None:
        """Free what room had that was held on a node that is gone."""
        for who in [who for who in self._columns.on_node(name) if isinstance(who, tuple) and isinstance(who[1], int)]:
            self._columns.free(who, name)

    def _forget(self, key: PodKey, node: str) -> None:
        there = self._untold.get(node)
        if there is not None and there.pop(key, None) is not None and not there:
            del self._untold[node]

    def _answered(self, key: PodKey, node: str) -> None:
        there = self.allocating.get(node)
        if there is not None and there.pop(key, None) is not None and not there:
            del self.allocating[node]

    def _hand_over(self, signature: bytes, node: str, who: Hashable) -> None:
        marks = self._earmarks.get((signature, node))
        if not marks:
            return
        grant = self._columns.free(marks.pop(0), node)
        if not marks:
            del self._earmarks[signature, node]
        if grant is not None:
            self._columns.take(who, grant)
