"""What the process is waiting for, by name: the answers behind /healthz and /readyz.

Each part of the operator registers a probe that reads its own state; nothing is polled and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must be so before the operator is of use; `detail` says how it is, or what is missing."""

    ok: bool
    detail: str = "ok"


Probe: TypeAlias = Callable[[], Check]


@dataclass(slots=True)
class Health:
    """All checks of one process: `ready` gates traffic and rollouts, `alive` gates a restart.

    A standby replica is ready: it has everything but the lease, and must not hold up a rollout. What comes and goes
    with the API server never makes a process not alive: to start it anew would cost time, and mend nothing.
    """

    ready: dict[str, Probe] = field(default_factory=dict)
    alive: dict[str, Probe] = field(default_factory=dict)

    def waiting(self, name: str, detail: str) -> None:
        """Record that something is missing for readiness, and what."""
        self.ready[name] = lambda: Check(ok=False, detail=detail)

    def passed(self, name: str) -> None:
        """Record that a readiness check holds from now on."""
        self.ready[name] = lambda: Check(ok=True)

    @contextmanager
    def asking(self, probes: Mapping[str, Probe]) -> Iterator[None]:
        """Have these gate readiness within the block: what they ask is there for no longer."""
        self.ready.update(probes)
        try:
            yield
        finally:
            for name in probes:
                self.ready.pop(name, None)

    def died(self, name: str, detail: str) -> None:
        """Record that a part of the process has ended when it should run."""
        self.alive[name] = lambda: Check(ok=False, detail=detail)


def run_probes(probes: Mapping[str, Probe]) -> dict[str, Check]:
    """Ask every probe once; may be called in another thread than the one that registers them.

    A probe that raises has failed: what it asks about is not as it should be.
    """
    return {name: _asked(probe) for name, probe in list(probes.items())}


def _asked(probe: Probe) -> Check:
    try:
        return probe()
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks are answered
        return Check(ok=False, detail=f"it cannot be told: {error!r}")


def probe_report(checks: Mapping[str, Check]) -> str:
    """One line per check, failing ones first, in the format that API server probes use."""
    ordered = sorted(checks.items(), key=lambda item: (item[1].ok, item[0]))
    return "".join(f"[{'+' if check.ok else '-'}]{name}: {check.detail}\n" for name, check in ordered)
