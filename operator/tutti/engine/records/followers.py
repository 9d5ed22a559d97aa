"""Who waits for whom to end: found by the name of who is waited for, without looking at everybody.

Those who wait for one another in a ring wait for ever, each for itself in the end. Which these are is worked out for
all together, in time proportional to who waits for whom, and only when that has changed: one by one, a long chain would
be followed anew from each of its links.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tutti.engine.records.workloads import WorkloadKey

BearerName = tuple[str, str]
"""Namespace and name of who is waited for, of whatever kind."""


class Followers:
    """Those who wait for others to end.

    Attributes:
        told: How those who are waited for fared when that was last looked at, by name.
        stale: Whether who waits for whom has changed since `find_rings`.
    """

    def __init__(self) -> None:
        self.told: dict[BearerName, str] = {}
        self.stale = False
        self._awaited: dict[WorkloadKey, frozenset[str]] = {}
        self._names: dict[WorkloadKey, frozenset[str]] = {}
        self._waiting_for: dict[BearerName, dict[WorkloadKey, None]] = {}
        self._bearers: dict[BearerName, dict[WorkloadKey, None]] = {}
        self._ring_of: dict[WorkloadKey, tuple[WorkloadKey, ...]] = {}

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
        self.stale = True
        self._awaited[key], self._names[key] = awaited, names
        for index, said in ((self._waiting_for, awaited), (self._bearers, names)):
            for name in sorted(said):
                index.setdefault((key[1], name), {})[key] = None

    def drop(self, key: WorkloadKey) -> None:
        """Note that a workload waits for nobody, or is gone."""
        awaited, names = self._awaited.pop(key, None), self._names.pop(key, frozenset())
        if awaited is None:
            return
        self.stale = True
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

    def find_rings(self) -> list[WorkloadKey]:
        """Work out all rings anew; returns whose is another than before, or is there no more."""
        before, self._ring_of, self.stale = self._ring_of, {}, False
        graph: dict[_Node, list[_Node]] = {
            key: [(key[1], name) for name in sorted(names)] for key, names in self._awaited.items()
        }
        graph |= {name: [*bearers] for name, bearers in self._bearers.items()}
        for component in _components(graph):
            if len(component) > 1:  # somebody, and a name by which somebody in it is waited for
                ring = tuple(sorted(key for key in self._awaited.keys() & component))
                self._ring_of.update(dict.fromkeys(ring, ring))
        either = {**before, **self._ring_of}
        return [key for key in either if before.get(key) != self._ring_of.get(key)]


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
