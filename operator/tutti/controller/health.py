"""What the process is waiting for, by name: the answers behind /healthz and /readyz.

Each part of the operator owns one check and moves it itself; a probe only reads. Nothing is polled.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Check:
    """One thing that must be so before the operator is of use; `detail` says what is missing, or how it is."""

    ok: bool = False
    detail: str = "not started"


@dataclass(slots=True)
class Health:
    """All checks of one process: `ready` gates traffic and rollouts, `alive` gates a restart.

    A standby replica is ready: it has everything but the lease, and must not hold up a rollout.
    """

    ready: dict[str, Check] = field(default_factory=dict)
    alive: dict[str, Check] = field(default_factory=dict)

    def expect(self, *names: str) -> None:
        """Announce checks that have yet to pass, so that readiness cannot be reported before them."""
        for name in names:
            self.ready.setdefault(name, Check())

    def passed(self, name: str, detail: str = "ok") -> None:
        """Record that a readiness check holds."""
        self.ready[name] = Check(ok=True, detail=detail)

    def waiting(self, name: str, detail: str) -> None:
        """Record that a readiness check does not hold, and what is missing."""
        self.ready[name] = Check(ok=False, detail=detail)

    def living(self, name: str) -> None:
        """Record that a part of the process runs."""
        self.alive[name] = Check(ok=True, detail="ok")

    def died(self, name: str, detail: str) -> None:
        """Record that a part of the process has ended when it should run."""
        self.alive[name] = Check(ok=False, detail=detail)

    @property
    def is_ready(self) -> bool:
        """Whether every announced readiness check holds; False before any was announced."""
        return bool(self.ready) and all(check.ok for check in self.ready.values())

    @property
    def is_alive(self) -> bool:
        """Whether no part of the process has died."""
        return all(check.ok for check in self.alive.values())


def report(checks: dict[str, Check]) -> str:
    """One line per check, failing ones first, in the format that API server probes use."""
    ordered = sorted(checks.items(), key=lambda item: (item[1].ok, item[0]))
    return "".join(f"[{'+' if check.ok else '-'}]{name}: {check.detail}\n" for name, check in ordered)
