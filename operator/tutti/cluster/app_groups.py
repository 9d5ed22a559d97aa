"""In which order the workloads of an AppGroup come, so that those which others need are known by their place.

The rules are those of KEP 260 (scheduler-plugins, kep/260-network-aware-scheduling): Kahn's algorithm over a stack of
the workloads that nothing unplaced depends on, or Tarjan's, a depth-first search; `Reverse...` goes backwards, and
`Alternate...` takes the first, the last, the second, the last but one, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tutti.api.network import AppGroup

UNKNOWN = -1
"""The place of a workload that an AppGroup does not name (TopologicalSort)."""


def places_in(group: AppGroup) -> Mapping[str, int]:
    """Return the places of workloads in their AppGroup: as the status says, or as worked out here, from 1."""
    return group.order or {one: place for place, one in enumerate(order_of(group), start=1)}


def order_of(group: AppGroup) -> Sequence[str]:
    """Return the workloads of an AppGroup in the order that it asks for; Kahn's where it asks for none we know."""
    needs = {one: [of.on for of in found] for one, found in group.dependencies.items()}
    return topology_order(group.algorithm, group.workloads, needs)


def topology_order(algorithm: str, workloads: Sequence[str], needs: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return workloads in order, those before that depend on others.

    Args:
        algorithm: KahnSort, AlternateKahn, ReverseKahn, TarjanSort, AlternateTarjan or ReverseTarjan.
        workloads: All of them, as written.
        needs: What each depends on.
    """
    every = list(dict.fromkeys([*workloads, *(one for found in needs.values() for one in found)]))
    found = _tarjan(every, needs) if algorithm.endswith(("Tarjan", "TarjanSort")) else _kahn(every, needs)
    if algorithm.startswith("Reverse"):
        return found[::-1]
    return alternated(found) if algorithm.startswith("Alternate") else found


def alternated(order: Sequence[str]) -> list[str]:
    """Return the first, the last, the second, the last but one, and so on."""
    half = (len(order) + 1) // 2
    first, last = order[:half], order[half:][::-1]
    return [one for pair in zip(first, [*last, ""], strict=False) for one in pair][: len(order)]


def _kahn(every: Sequence[str], needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Take the last of those that nothing left depends on, again and again; what goes round in rings comes last."""
    open_ = dict.fromkeys(every, 0)
    for found in needs.values():
        for one in found:
            open_[one] += 1
    stack, out = [one for one in every if not open_[one]], list[str]()
    while stack:
        out.append(stack.pop())
        for one in needs.get(out[-1], ()):
            open_[one] -= 1
            if not open_[one]:
                stack.append(one)
    seen = set(out)
    return [*out, *(one for one in every if one not in seen)]


def _tarjan(every: Sequence[str], needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Search depth first, and put each workload before all that it depends on."""
    out, seen = list[str](), set[str]()
    for start in every:
        if start in seen:
            continue
        seen.add(start)
        path = [(start, iter(needs.get(start, ())))]
        while path:
            one, left = path[-1]
            further = next((of for of in left if of not in seen), None)
            if further is None:
                out.append(one)
                path.pop()
            else:
                seen.add(further)
                path.append((further, iter(needs.get(further, ()))))
    return out[::-1]
