"""The table in a release's description."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bench.release_note import BEGIN, END, with_table

TABLE = "| a | b |\n|---|---|\n| 1 | \\2 |\n"
PART = f"{BEGIN}\n## Benchmark\n\nSince v1\n\n{TABLE.strip()}\n{END}"


@pytest.mark.parametrize(
    ("body", "noted"),
    [
        ("", f"{PART}\n"),
        ("Words.\n", f"Words.\n\n{PART}\n"),
        (f"Before\n{BEGIN}\nold\n{END}\nafter\n", f"Before\n{PART}\nafter\n"),
    ],
)
def test_a_table_comes_at_the_end_or_in_the_place_of_the_last(body, noted):
    assert with_table(body, TABLE, "Since v1") == noted
    assert with_table(noted, TABLE, "Since v1") == noted


def test_the_workflow_calls_what_there_is():
    root = Path(__file__).parents[2]
    workflow = yaml.safe_load((root / ".github" / "workflows" / "bench.yaml").read_text())
    makefile = (root / "Makefile").read_text()
    steps = workflow["jobs"]["bench"]["steps"]
    commands = "\n".join(step.get("run", "") for step in steps)
    assert "\nbench: " in makefile
    assert "--data-items-dir build/bench" in makefile
    for wanted in ("make bench", "tutti bench compare", "python -m bench.release_note", "build/bench/*.json"):
        assert wanted in commands
