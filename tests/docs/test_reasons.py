"""The page on troubleshooting names every reason for which a workload can be told to wait, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tutti.engine.records.explanation import AFTER_OTHERS, ASKING, PATIENT, DeactivationCause, EvictionReason, Gate
from tutti.quota.assignment import NoFit

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "operator" / "tutti" / "engine"
PAGE = ROOT / "docs" / "operations" / "troubleshooting.md"
CHOSEN_ELSEWHERE = {
    "a constant among the records": {ASKING, *AFTER_OTHERS, *PATIENT},
    "reasons of quota": {reason.reason for reason in NoFit if reason},
    "engine/admission/shortages.py, _reason": {"Unschedulable", "Impossible", "PluginFailed"},
    "engine/ingest/specs.py, _missing": {
        "InvalidWorkload", "InvalidPodGroup", "WorkloadNotFound", "PodGroupNotFound",
    },
    "cluster/classes.py, pods whose GPUs another project shares": {"UnsupportedGPUSharing"},
    "engine/lifecycle/checks.py, with_quota_held": {"WaitingForProvisionedNodes"},
    "engine/lifecycle/owner_starts.py, settle_write": {"StartRefused"},
    "engine/lifecycle/permits.py, _tell": {"PermitTimeout", "RefusedByPlugin"},
    "engine/lifecycle/eviction.py, _take_out": {*map(str, EvictionReason), *(f"{EvictionReason.DEACTIVATED}DueTo{why}" for why in DeactivationCause)},
}  # fmt: skip
"""Reasons that do not stand as text where the explanation is made, by where they come from."""


def said() -> Iterator[str]:
    """The reason of each explanation that the engine makes, where it stands as text or as a constant of the module."""
    for file in sorted(ENGINE.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        constants = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Explanation":
                reason = node.args[1]
                if isinstance(reason, ast.Constant):
                    yield str(reason.value)
                elif isinstance(reason, ast.Name) and reason.id in constants:
                    yield str(constants[reason.id])


def test_every_reason_has_a_line_that_says_what_helps() -> None:
    rows = re.findall(r"^\| (\w+) \| `(\w+)` \| (.+?) \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {gate for gate, *_ in rows} == {gate.value for gate in Gate}
    assert {reason for _, reason, *_ in rows} == {*said(), *set().union(*CHOSEN_ELSEWHERE.values())}
