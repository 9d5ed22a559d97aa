"""What has raised, and until when it is left out: of what is done for many at once, one object costs one object.

A workload's own turn has a bulkhead of its own (`engine/queue/bulkhead.py`). What is done once a turn for all of a
kind, such as following thresholds or writing the statuses of queues, is done one by one. Who raises is left out until a
backoff is over that doubles, and then looked at again; the others are done meanwhile. What concerns nobody in
particular is a part of the turn, left out alike under its own name. A change that is seen does not shorten the backoff:
statuses are changes, too, and an object that raises would be looked at with each echo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tutti.engine.records.workloads import ObjectKey

FORGIVEN_SECONDS: Final = 3600.0
"""After so long without a fault the next one counts as the first."""

_MOST: Final = 4096
"""So many are remembered; beyond that, those who have raised first are looked at again before their time."""


class Whose(NamedTuple):
    """Of whom something is done.

    Attributes:
        kind: "Engine" for a part of the turn that is nobody's in particular.
        namespace: "" for what is in none.
        name: What the object is called, or what the part does.
        api_version: Of an object that is told that it is set aside; "" for one that is told elsewhere, or not at all.
        uid: The same.
    """

    kind: str
    namespace: str
    name: str
    api_version: str = ""
    uid: str = ""


def part_of_turn(name: str) -> Whose:
    """Return a part of the turn that is nobody's in particular."""
    return Whose("Engine", "", name)


@dataclass(slots=True)
class Fault:
    """What somebody made the engine raise last.

    Attributes:
        times: How often it has, each time within an hour of the one before.
        at: When, Unix seconds.
        again_at: When it is looked at again.
    """

    times: int = 0
    at: float = 0.0
    again_at: float = 0.0


class Faults(dict[ObjectKey, Fault]):
    """Who has raised, by kind, namespace and name; empty nearly always, which is asked before each part of a turn."""

    def until(self, key: ObjectKey, now: float) -> float | None:
        """Return until when somebody is left out, Unix seconds; None: he is not."""
        fault = self.get(key)
        return fault.again_at if fault is not None and now < fault.again_at else None

    def note(self, key: ObjectKey, now: float, wait: Callable[[int], float]) -> Fault:
        """Note that somebody has raised now; `wait` says for how long he is left out after so many times."""
        fault = self.pop(key, None) or Fault()
        fault.times = fault.times + 1 if now < fault.at + FORGIVEN_SECONDS else 1
        fault.at, fault.again_at = now, now + wait(fault.times)
        if len(self) >= _MOST:
            del self[next(iter(self))]
        self[key] = fault
        return fault

    def forget(self, key: ObjectKey) -> None:
        """Forget one that is gone."""
        self.pop(key, None)

    def next_due(self, now: float) -> float | None:
        """Return when the first who is left out is looked at again, Unix seconds; None: nobody is left out."""
        return min((one.again_at for one in self.values() if one.again_at > now), default=None)
