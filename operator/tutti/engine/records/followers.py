"""Who waits for whom to end: found by the name of who is waited for, without looking at everybody.

Those who wait for one another in a ring wait for ever, each for itself in the end. Which these are is worked out for
all of a namespace together, in time proportional to who waits for whom there, and only when that has changed: one by
one, a long chain would be followed anew from each of its links. Where so many wait that it takes long, it is worked out
now and then: nobody starts earlier or later by it, and whoever changes one of thousands must not have all others walked
through each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tutti.engine.records.workloads import WorkloadKey

Awaited = tuple[str, str]
"""The name of who is waited for, and until when: Succeeded, or Finished."""

BearerName = tuple[str, str]
"""Namespace and name of who is waited for, of whatever kind."""


def still_awaited(after: Iterable[Awaited], ended: Mapping[str, str]) -> list[Awaited]:
    """Return whom a workload waits for yet of those that it names, by how those have ended that were noted.

    One that was let fail when that was noted, and has to succeed by now, is waited for again.
    """
    return [(name, when) for name, when in after if not counts_as_ended(ended.get(name, ""), when)]


def counts_as_ended(outcome: str, when: str) -> bool:
    """Whether an end (Succeeded, Failed) is one that is waited for until `when` (Succeeded, Finished)."""
    return outcome == "Succeeded" or (outcome == "Failed" and when == "Finished")


class Followers:
    """Those who wait for others to end.

    Attributes:
        told: How those who are waited for fared when that was last looked at, by name.
        begun: Whether what makes pods had begun when that was last looked at, by namespace and uid: as of which version
            of what runs, and how many pods it had.
    """

    def __init__(self) -> None:
        self.told: dict[BearerName, str] = {}
        self.begun: dict[tuple[str, str], tuple[int, int, bool]] = {}
        self._stale: dict[str, None] = {}
        self._rests_until: dict[str, float] = {}
        self._awaited: dict[WorkloadKey, frozenset[str]] = {}
        self._in: dict[str, dict[WorkloadKey, None]] = {}
        self._names: dict[WorkloadKey, frozenset[str]] = {}
        self._waiting_for: dict[BearerName, dict[WorkloadKey, None]] = {}
        self._bearers: dict[BearerName, dict[WorkloadKey, None]] = {}
        self._ring_of: dict[WorkloadKey, tuple[WorkloadKey, ...]] = {}
        self._rings_in: dict[str, tuple[WorkloadKey, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._awaited)

    def put(self, key: WorkloadKey, awaited: Iterable[str], names: Iterable[str]) -> None:
        """Note for whom a workload waits now.

        Args:
            key: The workload.
            awaited: The names of those in its namespace; none: it waits for nobody.
            names: By which names others wait for the workload itself.
        """
        awaited, names = frozenset(awaited), frozenset(names)
        if not awaited:
            self.drop(key)
            return
        if self._awaited.get(key) == awaited and self._names.get(key) == names:
            return
        self.drop(key)
        self._stale[key[1]] = None
        self._awaited[key], self._names[key] = awaited, names
        self._in.setdefault(key[1], {})[key] = None
        for index, said in ((self._waiting_for, awaited), (self._bearers, names)):
            for name in sorted(said):
                index.setdefault((key[1], name), {})[key] = None

    def drop(self, key: WorkloadKey) -> None:
        """Note that a workload waits for nobody, or is gone."""
        awaited, names = self._awaited.pop(key, None), self._names.pop(key, frozenset())
        if awaited is None:
            return
        self._stale[key[1]] = None
        del self._in[key[1]][key]
        if not self._in[key[1]]:
            del self._in[key[1]]
        for index, said in ((self._waiting_for, awaited), (self._bearers, names)):
            for name in said:
                here = index[key[1], name]
                del here[key]
                if not here:
                    del index[key[1], name]
        for name in awaited:
            if (key[1], name) not in self._waiting_for:
                self.told.pop((key[1], name), None)

    def of(self, name: BearerName) -> list[WorkloadKey]:
        """Return who waits for those of a name."""
        return list(self._waiting_for.get(name, ()))

    def ring_of(self, key: WorkloadKey) -> tuple[WorkloadKey, ...]:
        """Return those of whom each waits for all others and itself, this one among them; empty: it is in no ring."""
        return self._ring_of.get(key, ())

    def next_due(self) -> float | None:
        """Return when rings are to be worked out, Unix seconds; None where nothing has changed."""
        return min((self._rests_until.get(one, 0.0) for one in self._stale), default=None)

    def find_rings(self, now: float) -> list[WorkloadKey]:
        """Work out anew the rings of namespaces where somebody waits for others by now.

        Args:
            now: Unix seconds.

        Returns:
            Whose ring is another than before, or is there no more.
        """
        news: list[WorkloadKey] = []
        for namespace in [one for one in self._stale if self._rests_until.get(one, 0.0) <= now]:
            del self._stale[namespace]
            news += self._find_rings_in(namespace, now)
        return news

    def _find_rings_in(self, namespace: str, now: float) -> list[WorkloadKey]:
        here = self._in.get(namespace, {})
        before = {key: self._ring_of.pop(key) for key in self._rings_in.pop(namespace, ())}
        graph: dict[_Node, list[_Node]] = {
            key: [(namespace, name) for name in sorted(self._awaited[key])] for key in here
        }
        links = sum(map(len, graph.values()))
        graph |= {
            (namespace, name): [*self._bearers.get((namespace, name), ())] for key in here for name in self._names[key]
        }
        after: dict[WorkloadKey, tuple[WorkloadKey, ...]] = {}
        for component in _components(graph):
            if len(component) > 1:  # somebody, and a name by which somebody in it is waited for
                ring = tuple(sorted(key for key in here.keys() & component))
                known = before.get(ring[0])
                after.update(dict.fromkeys(ring, known if known == ring else ring))
        self._ring_of.update(after)
        if after:
            self._rings_in[namespace] = tuple(after)
        self._rests_until.pop(namespace, None)
        if links > _FEW_LINKS:
            self._rests_until[namespace] = now + links / _LINKS_PER_SECOND
        return [key for key in {**before, **after} if before.get(key) is not after.get(key)]


_FEW_LINKS = 1000
"""Where no more than so many are waited for, rings are worked out at once."""
_LINKS_PER_SECOND = 5000
"""Else so many a second on an average, which takes a twentieth of it."""

_Node = tuple[str, ...]
"""A workload, which leads to the names that it waits for, or a name, which leads to those who have it and wait."""


def _components(graph: Mapping[_Node, Sequence[_Node]]) -> Iterator[list[_Node]]:
    """Yield the strongly connected components (R. Tarjan, SIAM J. Comput. 1972), without recursion."""
    index: dict[_Node, int] = {}
    low: dict[_Node, int] = {}
    stack: list[_Node] = []
    stacked: set[_Node] = set()
    path: list[tuple[_Node, Iterator[_Node]]] = []

    def enter(node: _Node) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        stacked.add(node)
        path.append((node, iter(graph.get(node, ()))))

    for root in graph:
        if root not in index:
            enter(root)
        while path:
            node, ahead = path[-1]
            for one in ahead:
                if one not in index:
                    enter(one)
                    break
                if one in stacked:
                    low[node] = min(low[node], index[one])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == index[node]:
                    component = [stack.pop()]
                    while component[-1] != node:
                        component.append(stack.pop())
                    stacked.difference_update(component)
                    yield component
