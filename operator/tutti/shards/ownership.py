"""Which shard is to have what, and which one has it: nodes, namespaces, ClusterQueues and Cohorts.

What is *due* to a shard follows from the configuration and what objects say: a node by its labels, a ClusterQueue or
Cohort by the root of its tree, a namespace by its LocalQueues. What a shard *has* stands on the object, written by the
shard that had it before. Only where both are one may that shard's engine use it, so that between two shards it is
nobody's for a moment, and never two's:

    due A, has A ──relabelled──▶ due B, has A ──A has let go, and writes──▶ due B, has B ──B has read anew──▶ B uses it

A namespace goes by the oldest of its LocalQueues, but stays where any of them leads, and without any stays where it
is. Then the quota of a ClusterQueue is counted by the shard that knows all who use it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tutti.api.shards import DEFAULT_SHARD, SHARD_ANNOTATION, Shard

NODE: Final = "Node"
NAMESPACE: Final = "Namespace"
CLUSTER_QUEUE: Final = "ClusterQueue"
COHORT: Final = "Cohort"
KINDS: Final = (NAMESPACE, CLUSTER_QUEUE, COHORT, NODE)
"""What a shard has, in the order in which it gives up what goes together: who uses quota before the quota."""


class Holding(NamedTuple):
    """Something that one shard has at a time."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class _LocalQueue:
    """A LocalQueue: the oldest decides."""

    created: str
    name: str
    cluster_queue: str


class Ownership:
    """What was seen of who is to have what, and of who has it.

    Attributes:
        version: Grows whenever something is due to another shard, or another has it.
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.version = 0
        self._pools = [(one.name, one.nodes) for one in shards if one.nodes is not None]
        self._by_cohort = {tree: one.name for one in shards for tree in one.cohorts}
        self._by_queue = {tree: one.name for one in shards for tree in one.cluster_queues}
        self._has: dict[Holding, str] = {}
        self._due: dict[Holding, str] = {}
        self._several: dict[str, tuple[str, ...]] = {}
        self._cohort_of: dict[str, str] = {}  # of ClusterQueues
        self._parents: dict[str, str] = {}
        self._local_queues: dict[str, dict[str, _LocalQueue]] = {}
        self._stale = False  # whether trees have changed since what is due was worked out,
        self._stale_spaces: set[str] = set()  # or else these namespaces

    # What is seen.

    def put_node(self, name: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
        """Take in a node."""
        selected = tuple(shard for shard, selector in self._pools if selector.matches(labels))
        if len(selected) > 1:
            self._several[name] = selected
        else:
            self._several.pop(name, None)
        self._note(Holding(NODE, name), annotations, selected[0] if selected else DEFAULT_SHARD)

    def put_namespace(self, name: str, annotations: Mapping[str, str]) -> None:
        """Take in a namespace."""
        self._note(Holding(NAMESPACE, name), annotations)

    def put_cluster_queue(self, name: str, cohort: str, annotations: Mapping[str, str]) -> None:
        """Take in a ClusterQueue; `cohort` is empty where it is in none."""
        self._note(Holding(CLUSTER_QUEUE, name), annotations)
        self._stale |= self._cohort_of.get(name) != cohort
        self._cohort_of[name] = cohort

    def put_cohort(self, name: str, parent: str, annotations: Mapping[str, str]) -> None:
        """Take in a Cohort; `parent` is empty for a root."""
        self._note(Holding(COHORT, name), annotations)
        self._stale |= self._parents.get(name) != parent
        self._parents[name] = parent

    def put_local_queue(self, namespace: str, name: str, created: str, cluster_queue: str) -> None:
        """Take in a LocalQueue; `created` as the server writes it."""
        seen, known = _LocalQueue(created, name, cluster_queue), self._local_queues.setdefault(namespace, {})
        if known.get(name) != seen:
            known[name] = seen
            self._stale_spaces.add(namespace)

    def drop(self, kind: str, namespace: str, name: str) -> None:
        """Forget an object that does not exist any more."""
        if kind == "LocalQueue":
            known = self._local_queues.get(namespace, {})
            if known.pop(name, None) is not None:
                self._stale_spaces.add(namespace)
            if not known:
                self._local_queues.pop(namespace, None)
            return
        holding = Holding(kind, name)
        if kind == CLUSTER_QUEUE:
            self._cohort_of.pop(name, None)
        elif kind == COHORT:
            self._parents.pop(name, None)
        elif kind == NODE:
            self._several.pop(name, None)
        if self._has.pop(holding, None) is not None:
            self._due.pop(holding, None)
            self._stale |= kind in (CLUSTER_QUEUE, COHORT)
            self.version += 1

    def _note(self, holding: Holding, annotations: Mapping[str, str], due: str | None = None) -> None:
        has = annotations.get(SHARD_ANNOTATION) or DEFAULT_SHARD
        if self._has.get(holding) != has:
            self._stale |= holding not in self._has and holding.kind in (CLUSTER_QUEUE, COHORT)
            self._has[holding] = has
            if holding.kind == NAMESPACE:
                self._stale_spaces.add(holding.name)
            self.version += 1
        if due is not None:
            self._is_due(holding, due)

    # What follows from it.

    def has(self, holding: Holding) -> str:
        """Return the shard that has something, as was seen last; "" where it was not seen, or is gone."""
        return self._has.get(holding, "")

    def due(self, holding: Holding) -> str:
        """Return the shard that is to have something; "" where it was not seen, or is gone."""
        self._settle()
        return self._due.get(holding, "")

    def belongs(self, holding: Holding, shard: str) -> bool:
        """Whether a shard has something, and is to have it."""
        self._settle()
        return self._has.get(holding) == shard == self._due.get(holding)

    def knows(self, holding: Holding) -> bool:
        """Whether something was seen."""
        return holding in self._has

    def held_by(self, shard: str) -> set[Holding]:
        """Return all that a shard has and is to have."""
        self._settle()
        return {holding for holding, has in self._has.items() if has == shard == self._due.get(holding)}

    def used_by(self, shard: str) -> set[Holding]:
        """Return what an engine that is begun for a shard is to know: all that it has, but for nodes that are to leave.

        Who holds quota is counted by the shard that has the quota, until both have left.
        """
        self._settle()
        return {one for one, has in self._has.items() if has == shard and (one.kind != NODE or self._due[one] == shard)}

    def leaving(self, shard: str) -> dict[Holding, str]:
        """Return what a shard has and others are to have, and which ones; in the order in which it is given up."""
        self._settle()
        found = [(one, self._due[one]) for one, has in self._has.items() if has == shard != self._due[one]]
        return dict(sorted(found, key=lambda pair: (KINDS.index(pair[0].kind), pair[0].name)))

    def awaited(self, shard: str) -> dict[str, list[Holding]]:
        """Return what a shard is to have and others have still, by these."""
        self._settle()
        found: dict[str, list[Holding]] = {}
        for one, has in self._has.items():
            if has != shard == self._due[one]:
                found.setdefault(has, []).append(one)
        return found

    def count(self) -> Counter[str]:
        """Return how much each shard has, whether it is to have it or not."""
        return Counter(self._has.values())

    def selected_by_several(self) -> Mapping[str, tuple[str, ...]]:
        """Return the nodes that several shards select, and these, the one that has the node first."""
        return self._several

    def queues_below(self, cohort: str) -> Iterator[str]:
        """Yield the ClusterQueues below a Cohort, however deep."""
        for name in self._cohort_of:
            if cohort in self._path(self._cohort_of[name]):
                yield name

    def misled(self) -> Iterator[tuple[str, str, str, str, str]]:
        """Yield LocalQueues that lead out of their namespace's shard: namespace, name, ClusterQueue and both shards."""
        self._settle()
        for namespace, known in self._local_queues.items():
            here = self._due.get(Holding(NAMESPACE, namespace), "")
            for one in known.values():
                there = self._due.get(Holding(CLUSTER_QUEUE, one.cluster_queue), "")
                if here and there and here != there:
                    yield namespace, one.name, one.cluster_queue, here, there

    def _settle(self) -> None:
        """Work out what is due after trees, LocalQueues or namespaces have changed."""
        if self._stale:
            self._stale = False
            for queue, cohort in self._cohort_of.items():
                tree = self._shard_of_tree(cohort) if cohort else self._by_queue.get(queue, DEFAULT_SHARD)
                self._is_due(Holding(CLUSTER_QUEUE, queue), tree)
            for cohort in self._parents:
                self._is_due(Holding(COHORT, cohort), self._shard_of_tree(cohort))
            self._stale_spaces = {holding.name for holding in self._has if holding.kind == NAMESPACE}
        for name in self._stale_spaces:
            holding = Holding(NAMESPACE, name)
            if holding in self._has:
                self._is_due(holding, self._shard_of_namespace(name, self._has[holding]))
        self._stale_spaces = set()

    def _is_due(self, holding: Holding, shard: str) -> None:
        if self._due.get(holding) != shard:
            self._due[holding] = shard
            self.version += 1

    def _shard_of_tree(self, cohort: str) -> str:
        """Return whose tree a cohort is in; a ring has no root, and is the default shard's."""
        path = self._path(cohort)
        root = path[-1]
        return DEFAULT_SHARD if self._parents.get(root) else self._by_cohort.get(root, DEFAULT_SHARD)

    def _path(self, cohort: str) -> list[str]:
        """Return a cohort and those above it up to the root; of a ring those in it, once."""
        path: list[str] = []
        seen: set[str] = set()
        while cohort and cohort not in seen:
            seen.add(cohort)
            path.append(cohort)
            cohort = self._parents.get(cohort, "")
        return path

    def _shard_of_namespace(self, name: str, has: str) -> str:
        local_queues = sorted(self._local_queues.get(name, {}).values(), key=lambda one: (one.created, one.name))
        led_to = [self._due.get(Holding(CLUSTER_QUEUE, one.cluster_queue), "") for one in local_queues]
        wanted = [shard for shard in led_to if shard]  # a ClusterQueue that is not there says nothing
        return has if has in wanted or not wanted else wanted[0]


def may_leave(
    leaving: Mapping[Holding, str], charged: Mapping[tuple[str, str], int], ownership: Ownership, shard: str
) -> dict[Holding, str]:
    """Return what of that which is to leave a shard may do so now.

    Quota goes together with whoever uses it. A namespace waits where something of it holds quota of a ClusterQueue that
    does not go the same way; a ClusterQueue waits for namespaces whose work holds its quota and does not go the same
    way; a Cohort waits for the ClusterQueues below it that stay, or go elsewhere.

    Args:
        leaving: What is to go where (`Ownership.leaving`).
        charged: How many workloads of a namespace hold quota of a ClusterQueue, by these two.
        ownership: Tells who has what.
        shard: The one that gives up.
    """
    going = dict(leaving)
    while True:
        kept = [one for one, to in going.items() if _must_stay(one, to, going, charged, ownership, shard)]
        if not kept:
            return going
        for one in kept:
            del going[one]


def _must_stay(
    one: Holding,
    to: str,
    going: Mapping[Holding, str],
    charged: Mapping[tuple[str, str], int],
    ownership: Ownership,
    shard: str,
) -> bool:
    def goes_along(other: Holding) -> bool:
        return going.get(other) == to or ownership.has(other) == to

    if one.kind == NAMESPACE:
        queues = [queue for (space, queue), many in charged.items() if space == one.name and many]
        return not all(goes_along(Holding(CLUSTER_QUEUE, queue)) for queue in queues)
    if one.kind == CLUSTER_QUEUE:
        spaces = [space for (space, queue), many in charged.items() if queue == one.name and many]
        return not all(goes_along(Holding(NAMESPACE, space)) for space in spaces)
    if one.kind == COHORT:
        below = [Holding(CLUSTER_QUEUE, queue) for queue in ownership.queues_below(one.name)]
        return any(ownership.has(queue) == shard and going.get(queue) != to for queue in below)
    return False


def annotations_in(raw: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the annotations of an object as the server sent it; what is no text is left out."""
    found = (raw.get("metadata") or {}).get("annotations")
    return {key: text for key, text in found.items() if isinstance(text, str)} if isinstance(found, dict) else {}
