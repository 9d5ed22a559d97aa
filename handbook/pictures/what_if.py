"""The picture of docs/howto/what-if.md: who would start when, with four more nodes and the quota for them."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner

from handbook.pictures.page import Made
from handbook.pictures.simulated import EXAMPLES, simulated
from tutti.cli.main import cli
from tutti_simulate.playing import START
from tutti_simulate.plots import Bars, drawn_bars

ASKED: Final = START + 11_444
"""When most of them wait."""
CHANGES: Final = ("--add-nodes", "cpu-0000=4", "--quota", "batch:cpu=640")


def made() -> Made:
    """Play a trace, ask its journal about a busy moment, and draw when those start that fare otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal"
        simulated(
            EXAMPLES / "campus.swf", "--cluster", EXAMPLES / "cpus.yaml", "--queue", "*=batch", "--most", 160,
            "--journal", journal,
        )  # fmt: skip
        at = datetime.fromtimestamp(ASKED, UTC).isoformat()
        done = CliRunner().invoke(cli, ["what-if", "--journal", str(journal), "--at", at, *CHANGES, "-o", "json"])
    if done.exit_code:
        raise RuntimeError(done.output)
    found = json.loads(done.stdout)
    groups = {
        one["name"]: [round(_minutes(one[when], found["at"]), 1) for when in ("before", "after")]
        for one in sorted(found["workloads"], key=lambda one: int(one["name"].partition("-")[2]))
    }
    title = "when they start, now and with four more nodes"
    return Made({"what-if-starts.svg": drawn_bars(Bars(title, "minutes from now", ["without", "with"], groups))})


def _minutes(course: dict[str, Any], now: float) -> float:
    return max(0.0, (float(course["startsAt"]) - now) / 60)
