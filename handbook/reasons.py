"""The page of reasons: each word that a status gives for waiting, being taken out or being inactive.

Which there are is read from the code; what each means is in reasons.yaml, and one without is an error.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

import tutti
from handbook.said import examples
from tutti.engine.backfill.promise_texts import WOULD_DELAY
from tutti.engine.preemption.by_priority import PREEMPTED
from tutti.engine.records.explanation import (
    AFTER_OTHERS,
    ASKING,
    BEHIND_HEAD,
    IN_LINE,
    IN_THEIR_PLACE,
    LACKS_NODE,
    PATIENT,
    DeactivationCause,
    EvictionReason,
    Gate,
)
from tutti.quota.assignment import NoFit
from tutti.quota.reclaim import PreemptionReason

PACKAGE = Path(tutti.__file__).parent
TEXTS = Path(__file__).with_name("reasons.yaml")

CHOSEN_ELSEWHERE: dict[str, set[tuple[Gate, str]]] = {
    "a constant among the records": {
        (Gate.PLACEMENT, ASKING),
        *((Gate.QUEUE, one) for one in AFTER_OTHERS),
        *((Gate.PLACEMENT, one) for one in PATIENT),
    },
    "reasons of quota": {(Gate.QUOTA, reason.reason) for reason in NoFit if reason},
    "engine/admission/shortages.py, _reason": {(Gate.PLACEMENT, one) for one in (*LACKS_NODE, "PluginFailed")},
    "engine/ingest/specs.py, _missing": {
        (Gate.GATHER, f"{kind}{what}")
        for kind, what in (
            ("Invalid", "Workload"),
            ("Invalid", "PodGroup"),
            ("Workload", "NotFound"),
            ("PodGroup", "NotFound"),
        )
    },
    "cluster/class_book.py, pods whose GPUs another project shares": {(Gate.PLACEMENT, "UnsupportedGPUSharing")},
    "engine/backfill/letting_by.py, why_kept_off": {(Gate.QUEUE, WOULD_DELAY)},
    "engine/queue/behind_heads.py, explain_behind": {(Gate.QUEUE, BEHIND_HEAD)},
    "engine/preemption/by_priority.py, wait_for_victims": {(Gate.VICTIMS, IN_THEIR_PLACE)},
    "engine/lifecycle/checks.py, with_quota_held": {(Gate.PLACEMENT, "WaitingForProvisionedNodes")},
    "engine/lifecycle/owner_starts.py, settle_write": {(Gate.PERMIT, "StartRefused")},
    "engine/lifecycle/permits.py, _tell": {(Gate.PERMIT, "PermitTimeout"), (Gate.PERMIT, "RefusedByPlugin")},
    "engine/lifecycle/eviction.py, deactivate": {(Gate.PLACEMENT, one.value) for one in DeactivationCause},
    "engine/lifecycle/eviction.py, explain_leaving": {
        *((Gate.PERMIT, one.value) for one in EvictionReason if one is not EvictionReason.ADMISSION_CHECK),
        (Gate.CHECKS, EvictionReason.ADMISSION_CHECK.value),
        *((Gate.PERMIT, f"{EvictionReason.DEACTIVATED}DueTo{why}") for why in DeactivationCause),
    },
}
"""Reasons that do not stand as text where the explanation is made, by where they come from."""

NOT_TOLD = {(Gate.QUEUE, IN_LINE)}
"""Over in a moment, so that nobody is told."""

RULES = {*(one.value for one in PreemptionReason), PREEMPTED}
"""Reasons of condition `Preempted`."""


def waiting() -> set[tuple[str, str]]:
    """Gate and reason of each explanation that the engine makes."""
    found = set().union(*CHOSEN_ELSEWHERE.values())
    for tree in _trees(PACKAGE / "engine"):
        constants = _constants(tree)
        for call in _calls(tree, "Explanation"):
            gate, reason = call.args[:2]
            said = _text(reason, constants)
            if isinstance(gate, ast.Attribute) and said:
                found.add((Gate[gate.attr], said))
    return {(gate.value, reason) for gate, reason in found - NOT_TOLD}


def inactive() -> set[str]:
    """Reasons for which condition `Active` of a queue, cohort, flavor, topology or admission check is False."""
    found = set()
    for tree in (*_trees(PACKAGE / "quota"), *_trees(PACKAGE / "controller")):
        for name in ("QuotaProblem", "_inactive"):
            found |= {said for call in _calls(tree, name) if (said := _text(call.args[0], {}))}
        for call in _calls(tree, "ActiveCondition"):
            named = {one.arg: one.value for one in call.keywords}
            if isinstance(named["active"], ast.Constant) and named["active"].value is False:
                found |= {said} if (said := _text(named["reason"], {})) else set()
    return found


def _trees(folder: Path) -> Iterator[ast.Module]:
    for file in sorted(folder.rglob("*.py")):
        yield ast.parse(file.read_text(encoding="utf-8"))


def _calls(tree: ast.Module, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def _constants(tree: ast.Module) -> dict[str, str]:
    return {
        target.id: str(node.value.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _text(node: ast.expr, constants: Mapping[str, str]) -> str:
    """What an expression says where that stands in the file; "" where it is worked out."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    return constants.get(node.id, "") if isinstance(node, ast.Name) else ""


INTRODUCTION = """# Reasons

Each word that a status or a condition gives as `reason`, what it means, and what helps. The message beside it has the
numbers; `tutti explain` tells both, and what would unblock it.

"""
WAITS = """## A workload waits

`reason` in `status.pendingReason` (PodGroup) or `status.pending` (Workload), and of condition `PodScheduled` of pods,
by gate. Pods that lack a node, and only those, say `Unschedulable` to autoscalers.

"""
SAYS = """
## What they say

A message of each, as an engine wrote it in a test; names and numbers are that test's, and so are the years.

"""
TAKEN_OUT = """
## A workload is taken out

Condition `Evicted` has one of the reasons at gate Permit above that say that it is leaving. Of who leaves for others,
condition `Preempted` says by which rule:

"""
NOT_ACTIVE = """
## A queue is not active

Condition `Active` is False of a ClusterQueue, LocalQueue, Cohort, ResourceFlavor, Topology or AdmissionCheck:

"""


def page() -> str:
    """The whole page, in Markdown.

    Raises:
        ValueError: a reason is not described, or one is described that nothing says.
    """
    texts: dict[str, Any] = yaml.safe_load(TEXTS.read_text(encoding="utf-8"))
    told = {(gate.value, reason): one for gate in Gate for reason, one in texts[gate.value].items()}
    _same(told.keys(), waiting(), "waiting")
    _same(texts["Preempted"].keys(), RULES, "Preempted")
    _same(texts["Inactive"].keys(), inactive(), "Inactive")
    lines = [INTRODUCTION, WAITS, "| gate | reason | means | what helps |\n|---|---|---|---|\n"]
    lines += [f"| {gate} | `{reason}` | {one['means']} | {one['helps']} |\n" for (gate, reason), one in told.items()]
    shown = examples()
    lines += [
        SAYS,
        *(f"- **{what[0]}, `{what[1]}`**: {_plain(shown[what].message)}\n" for what in told if what in shown),
    ]
    lines += [TAKEN_OUT, "| reason | means | what helps |\n|---|---|---|\n", *_rows(texts["Preempted"])]
    lines += [NOT_ACTIVE, "| reason | means | what helps |\n|---|---|---|\n", *_rows(texts["Inactive"])]
    return "".join(lines)


def _plain(message: str) -> str:
    """A message as text that Markdown does not read."""
    return "`" + message.replace("`", "'") + "`"


def _rows(told: Mapping[str, Mapping[str, str]]) -> list[str]:
    return [f"| `{reason}` | {one['means']} | {one['helps']} |\n" for reason, one in told.items()]


def _same(told: Any, said: set[Any], what: str) -> None:
    missing, idle = sorted(said - set(told)), sorted(set(told) - said)
    if missing or idle:
        raise ValueError(
            f"handbook/reasons.yaml ({what}): the code says {missing or 'nothing'} that it does not describe, "
            f"and never says {idle or 'nothing'} that it does"
        )
