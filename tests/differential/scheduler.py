"""Compares what an `Engine` decides with what was recorded from kube-scheduler 1.36.

The engine is told of what existed and asked once: on which node the pod goes; if on none, what is said of it and who is
taken out for it. The scores of the single plugins, of which no decision tells, are asked of the plugins themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.differential.records import cases
from tests.differential.scheduler_reading import Case, decided, world_of
from tests.placement.naive_preemption import World
from tests.placement.single_decision import Decision as SingleDecision
from tests.placement.single_decision import decide
from tutti.api.storage import SELECTED_NODE
from tutti.engine.records.decisions import Bind, Decision, Evict, ReserveVolume, SelectNode, SetPodCondition

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

VOLUME_FAMILIES = tuple(
    f"volumes-{one}"
    for one in ("bound", "capacity", "disks", "limits", "mixed", "once", "problems", "unbound", "zones")
)
"""Those of the cases about volumes."""

DRAWN_FAMILIES = {
    "drawn-hugepages": 25,
    "drawn-kept-room": 6,
    "drawn-leaving": 10,
    "drawn-nominated": 25,
    "drawn-otherwise": 14,
    "drawn-owners": 25,
    "drawn-pod-level": 25,
    "drawn-pod-level-resize": 25,
    "drawn-victims": 25,
}
"""Those of the cases in drawn worlds, and how many are of each."""

NOT_ASKED = " not found"
"""What kube-scheduler says of victims where it did not look at single nodes."""
NO_CLAIMS = " no new claims to deallocate, preemption: "


def compare(path: Path, *, only: str = "", skip_tag: str = "") -> Iterator[tuple[str, str | None]]:
    """Each case's id, and how it is decided otherwise than recorded, None where it is not."""
    for case in cases(path):
        if {LEFT_OUT, skip_tag} & set(case["tags"]) or (only and case["family"] != only):
            continue
        yield str(case["id"]), "; ".join(differences(case)) or None


def asked(path: Path) -> dict[str, str]:
    """What answers each case, and what it is asked, by its id."""
    return {str(case["id"]): f"Engine, {question(case)}" for case in cases(path)}


def question(case: Case) -> str:
    """What a case asks: on which node, why on none, or who is to go."""
    result = case["result"]
    if result["node"] is not None:
        return "node"
    if result["reason"] == "SchedulerError":
        return "scheduler error"
    return "victims" if result["victims"] else "nobody fits"


def remarks(path: Path) -> list[str]:
    """What is said of the file as a whole."""
    count = sum(LEFT_OUT in case["tags"] for case in cases(path))
    return [f"{count} left out: {LEFT_OUT} (kubernetes issue 141526)"]


def differences(case: Case) -> list[str]:
    """What is decided otherwise than was recorded, one text per difference."""
    world = world_of(case)
    node, decisions = decided(world)
    expected = case["result"]
    given = _volumes(case, decisions) if node and node == expected["node"] else []
    return [*_outcome(node, decisions, expected, len(world.nodes)), *given, *_scores(world, expected)]


def _volumes(case: Case, decisions: Sequence[Decision]) -> list[str]:
    """Compare what is written on claims and volumes, but for what stood there before."""
    mine = {f"pvc/{one.name}": one.node for one in decisions if isinstance(one, SelectNode)}
    mine |= {f"pv/{one.volume}": one.name for one in decisions if isinstance(one, ReserveVolume)}
    claims, volumes = case.get("persistentVolumeClaims", ()), case.get("persistentVolumes", ())
    selected = {
        f"pvc/{one['metadata']['name']}" for one in claims if SELECTED_NODE in one["metadata"].get("annotations", ())
    }
    reserved = {f"pv/{one['metadata']['name']}" for one in volumes if "claimRef" in one["spec"]}
    recorded = case["result"].get("volumes") or {}
    wanted = {key: value for key, value in recorded.items() if key not in selected | reserved}
    mine = {key: value for key, value in mine.items() if key not in selected | reserved}
    return [f"volumes: {mine} instead of {wanted}"] if mine != wanted else []


def _outcome(node: str, decisions: Sequence[Decision], expected: Case, nodes: int) -> list[str]:
    bound = [one.node for one in decisions if isinstance(one, Bind)] or [node] * bool(node)  # may wait for its volumes
    victims = sorted(f"{one.namespace}/{one.name}" for one in decisions if isinstance(one, Evict))
    said = [one for one in decisions if isinstance(one, SetPodCondition)]
    out = []
    if bound != [] if expected["node"] is None else len(bound) != 1 or bound[0] not in best_nodes(expected):
        out.append(f"node: {bound} instead of {best_nodes(expected)}")
    if victims != sorted(expected["victims"] or []):
        out.append(f"victims: {victims} instead of {expected['victims']}")
    nominated = next((one.nominated_node for one in said if one.nominated_node), None)
    if nominated != expected["nominatedNode"] and nominated != node:
        out.append(f"nominated: {nominated} instead of {expected['nominatedNode']}")
    if expected["node"] is None and not victims and not bound and nominated is None:  # else it says whom it waits for
        text = said[0].message if said else ""
        filtered = expected["message"].split(NO_CLAIMS)[0].removesuffix(NOT_ASKED)
        every = f"0/{nodes} nodes are available: {text}."
        if filtered not in (text, every) and not text.startswith(f"{filtered} "):  # ours may say more behind it
            out.append(f"message: {text!r} instead of {filtered!r}")
    return out


def best_nodes(expected: Case) -> list[str]:
    """The nodes that are right: those with the highest final score, any of them."""
    scores = expected["finalScores"] or {expected["node"]: 0}
    return [node for node, score in scores.items() if node is not None and score == max(scores.values())]


def _scores(world: World, expected: Case) -> list[str]:
    cluster = world.cluster()
    record = cluster.put_pod(world.probe, keep=True)
    assert record is not None
    return difference_in_scores(decide(record.pod_class, cluster.nodes, kept=world.kept()), expected)


def difference_in_scores(decision: SingleDecision, expected: Case) -> list[str]:
    """How the feasible nodes, and the scores of the single plugins, differ from those recorded."""
    out = []
    if len(decision.rows) != expected["feasibleNodes"] and expected["reason"] != "SchedulerError":
        out.append(f"feasible: {sorted(decision.names)} instead of {expected['feasibleNodes']}")
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
