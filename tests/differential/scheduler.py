"""Compares decisions of `tutti.placement` with those recorded from kube-scheduler 1.36."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from tests.differential.scheduler_reading import Case, budgets_of, cluster_of, pod_of, preemptor_of
from tutti.placement.decision import Decision, decide
from tutti.placement.judging import assess
from tutti.placement.preemption.single import Preemption, preempt

LEFT_OUT = "namespace-selector-quirk"
"""A defect of kube-scheduler (kubernetes issue 141526): we follow what the API documents."""

OPTIONS = {"only", "skip_tag"}
FAMILIES = (
    "interpodaffinity",
    "mixed",
    "nodeaffinity",
    "ports-images",
    "preemption",
    "resources",
    "taints",
    "topologyspread",
)

NO_CLAIMS = " no new claims to deallocate, preemption: "


def cases(path: Path) -> Iterator[Case]:
    with gzip.open(path, "rt") as lines:
        for line in lines:
            yield json.loads(line)


def compare(path: Path, *, only: str = "", skip_tag: str = "") -> Iterator[tuple[str, str | None]]:
    """Each case's id and family, and how it is decided otherwise than recorded, None where it is not."""
    for case in cases(path):
        if {LEFT_OUT, skip_tag} & set(case["tags"]) or (only and case["family"] != only):
            continue
        yield f"{case['id']} {case['family']}", "; ".join(differences(case)) or None


def remarks(path: Path) -> list[str]:
    """What is said of the file as a whole."""
    count = sum(LEFT_OUT in case["tags"] for case in cases(path))
    return [f"{count} left out: {LEFT_OUT} (kubernetes issue 141526)"]


def differences(case: Case) -> list[str]:
    """What is decided otherwise than was recorded, one text per difference."""
    cluster = cluster_of(case)
    preemptor = preemptor_of(cluster, pod_of(case["probe"]))
    decision = decide(preemptor.klass, cluster.nodes)
    expected = case["result"]
    out = [*_outcome(decision, expected), *_scores(decision, expected)]
    if not len(decision.rows) and expected["reason"] != "SchedulerError":
        said = assess(preemptor.klass, cluster.nodes)
        preemption = preempt(cluster, preemptor, said, budgets_of(case))
        out += _preemption(preemption, cluster.nodes.names, expected)
    return out


def _preemption(preemption: Preemption, names: list[str], expected: Case) -> list[str]:
    chosen = preemption.chosen
    node = names[chosen.row] if chosen else None
    victims = sorted("/".join(record.key) for record in chosen.victims) if chosen else []
    out = []
    if node != expected["nominatedNode"]:
        out.append(f"nominated: {node} instead of {expected['nominatedNode']}")
    if victims != sorted(expected["victims"] or []):
        out.append(f"victims: {victims} instead of {expected['victims']}")
    _, _, text = expected["message"].partition(NO_CLAIMS)
    if preemption.message != text:
        out.append(f"preemption: {preemption.message!r} instead of {text!r}")
    return out


def _outcome(decision: Decision, expected: Case) -> list[str]:
    out = []
    if len(decision.rows) != expected["feasibleNodes"] and expected["reason"] != "SchedulerError":
        out.append(f"feasible: {sorted(decision.names)} instead of {expected['feasibleNodes']}")
    if expected["reason"] == "SchedulerError":
        if decision.error != expected["message"]:
            out.append(f"error: {decision.error!r} instead of {expected['message']!r}")
    elif expected["node"] is None:
        text = expected["message"].split(NO_CLAIMS)[0]
        if decision.message != text:
            out.append(f"message: {decision.message!r} instead of {text!r}")
    elif expected["node"] not in decision.best:
        out.append(f"node: one of {decision.best} instead of {expected['node']}")
    return out


def _scores(decision: Decision, expected: Case) -> list[str]:
    out = []
    names = {name: i for i, name in enumerate(decision.names)}
    for node, scores in expected["scores"].items():
        if node not in names:
            out.append(f"{node} is not feasible")
            continue
        mine = {plugin: int(column[names[node]]) for plugin, column in decision.scores.items()}
        if mine != scores:
            wrong = [key for key in {**scores, **mine} if scores.get(key) != mine.get(key)]
            out.append(f"{node}: " + ", ".join(f"{key} {mine.get(key)} instead of {scores.get(key)}" for key in wrong))
        total = int(decision.total[names[node]])
        if total != expected["finalScores"][node]:
            out.append(f"{node}: {total} in all instead of {expected['finalScores'][node]}")
    return out
