"""In which order the parts of an application stand in line: by its AppGroup, in the turns that they have together.

TopologicalSort (scheduler-plugins 903da7df) compares two pods of one AppGroup by its order alone, and any others by
priority and age. That is no order of all pods: three can go round in a ring. Here the parts of an application that
wait have, together, the turns that priority and age give them, and share these out by the AppGroup's order. So any two
of them stand as TopologicalSort says, and nobody else has more of them before him than without it: whoever is placed
has used up the turn that it stood in, and leaves its own to the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tutti.engine.records.workloads import Workload, WorkloadKey

Application = tuple[str, str]
"""The namespace and name of an AppGroup."""


Turn = tuple[int, float]
"""Less for a higher priority, and since when somebody waits."""


@dataclass(slots=True)
class _Part:
    workload: Workload
    place: int
    own: Turn


@dataclass(slots=True)
class Applications:
    """The parts of applications that wait.

    Attributes:
        changed: Applications whose parts are to share out their turns anew.
    """

    changed: dict[Application, None] = field(default_factory=dict)
    _parts: dict[Application, dict[WorkloadKey, _Part]] = field(default_factory=dict)
    _turns: dict[Application, Counter[Turn]] = field(default_factory=dict)
    _of: dict[WorkloadKey, Application] = field(default_factory=dict)

    def put(self, workload: Workload, application: Application, place: int) -> None:
        """Have a workload wait as a part of an application, at a place in its order."""
        own = (-workload.priority, workload.stands_since)
        known = self._parts.get(application, {}).get(workload.key)
        if known is not None and (known.place, known.own, known.workload) == (place, own, workload):
            return
        if known is None or known.own != own:
            self.drop(workload)
            self._turns.setdefault(application, Counter())[own] += 1
        self._parts.setdefault(application, {})[workload.key] = _Part(workload, place, own)
        self._of[workload.key] = application
        self.changed[application] = None

    def drop(self, workload: Workload) -> None:
        """Have a workload be a part of nothing that waits; the turn that it stood in goes with it."""
        application = self._of.pop(workload.key, None)
        if application is None:
            return
        parts, turns = self._parts[application], self._turns[application]
        own = parts.pop(workload.key).own
        used = own if workload.shared_standing is None else workload.shared_standing[:2]
        gone = used if used in turns else own
        turns[gone] -= 1
        if not turns[gone]:
            del turns[gone]
        workload.shared_standing = None
        self.changed[application] = None
        if not parts:
            del self._parts[application], self._turns[application]

    def all(self) -> Mapping[WorkloadKey, Application]:
        """Return every part that waits, with its application."""
        return self._of

    def share_out(self) -> list[Workload]:
        """Give the parts of what has changed their turns; returns those that stand elsewhere now."""
        moved = []
        changed, self.changed = self.changed, {}
        for application in changed:
            parts = sorted(
                self._parts.get(application, {}).values(), key=lambda one: (one.place, one.own, one.workload.key)
            )
            turns = sorted(self._turns.get(application, Counter()).elements())
            for part, turn in zip(parts, turns, strict=True):
                standing = (*turn, part.place)
                if part.workload.shared_standing != standing:
                    part.workload.shared_standing = standing
                    moved.append(part.workload)
        return moved
