"""The pictures of docs/howto/simulate.md: the two runs that it tells to type."""

from __future__ import annotations

import tempfile
from pathlib import Path

from handbook.pictures.page import Made
from handbook.pictures.simulated import EXAMPLES, simulated

SHOWN = ("waiting", "fragmentation", "waits", "queues", "preemptions", "power")


def made() -> Made:
    """Play both, and take what `--pictures` draws."""
    with tempfile.TemporaryDirectory() as folder:
        simulated(
            EXAMPLES / "helios_cluster_log.csv", "--cluster", EXAMPLES / "gpus.yaml", "--against",
            EXAMPLES / "packing.yaml", "--power", "idle=300,core=3,gpu=350", "--pictures", folder,
        )  # fmt: skip
        return Made({f"simulate-{name}.svg": (Path(folder) / f"{name}.svg").read_text("utf-8") for name in SHOWN})
