"""The schedulers that a benchmark is run with: one that runs already, Tutti, or a kube-scheduler given by its path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tutti.api.model import API_VERSION

KUBE_SCHEDULER: Final = "kube-scheduler"
REFERENCE_NAME: Final = "tutti-bench-kube-scheduler"
"""The schedulerName under which a given kube-scheduler works, so that it leaves everybody else's pods alone."""
_UNLIMITED: Final = 5000
"""Requests per second, as scheduler_perf's own client has them."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A scheduler, and how it is started.

    Attributes:
        label: What it is called in results.
        scheduler: The schedulerName it works under.
        binary: What is started; None for this Python's `tutti`.
        starts: Whether it is started; else it runs already.
        pid: The process of one that runs already, on this machine.
        more: Further arguments of the binary.
        drains: Whether it is stopped while the pods that are measured are created.
    """

    label: str
    scheduler: str
    binary: Path | None = None
    starts: bool = False
    pid: int | None = None
    more: tuple[str, ...] = ()
    drains: bool = False

    def arguments(self, kubeconfig: Path, directory: Path) -> Sequence[str]:
        """Write its configuration and return what it is started with."""
        configuration = directory / f"{self.label}.yaml"
        if self.binary is None:
            configuration.write_text(yaml.safe_dump(_tutti(self.scheduler)), encoding="utf-8")
            files = ("--kubeconfig", str(kubeconfig), "--config", str(configuration))
            return ("run", *files, "--log-format", "json")
        configuration.write_text(yaml.safe_dump(_kube_scheduler(self.scheduler, kubeconfig)), encoding="utf-8")
        return (str(self.binary), "--config", str(configuration), "--secure-port", "0", *self.more)


def _tutti(scheduler: str) -> dict[str, Any]:
    """One replica alone, which needs no lease."""
    return {
        "apiVersion": API_VERSION,
        "kind": "TuttiConfiguration",
        "profiles": [{"schedulerName": scheduler}],
        "leaderElection": {"enabled": False},
        "metrics": {"bindAddress": "127.0.0.1:0"},
    }


def _kube_scheduler(scheduler: str, kubeconfig: Path) -> dict[str, Any]:
    """Its defaults, with a name of its own, without a lease and without limits of its client."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": _UNLIMITED, "burst": _UNLIMITED},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": scheduler}],
    }
