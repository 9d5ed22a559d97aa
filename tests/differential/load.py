"""Compares the scores by measured load and power with what was recorded of those who made them (`load.md`).

A node, the pods on it and what was measured are made a cluster, as observations make it; then the plugins of a profile
that has `load` are asked about the class of the case's pod, over the columns. What was recorded of single formulas is
asked of the functions that those plugins call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from tests.differential.records import cases
from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import Container, Node, NodeStatus, ObjectMeta, Pod, PodSpec, PodStatus, ResourceRequirements
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.cluster.expected_use import (
    CPU,
    MEMORY,
    NAMES,
    Estimates,
    FreshColumn,
    best_effort_estimate,
    burst_estimate,
    effective,
)
from tutti.engine.reading.profiles import estimates_of, profiles_of
from tutti.placement.framework import NO_FLAVOR
from tutti.placement.plugins import load_risk, measured_load
from tutti.placement.plugins.load_risk import Commitment, MeasuredAmounts
from tutti.placement.plugins.load_thresholds import LoadThresholds
from tutti.placement.plugins.measured_load import MeasuredLoad

Case = dict[str, Any]
NODE = "n"
NO_MODEL = {"another": {"k0": 0, "k1": 0, "k2": 0}}
"""A model of no node that there is, since a profile has one at least."""
AT = 1_000_000.0
"""When nodes are measured."""
FIRST = np.ones(1, dtype=np.int64)
ROW = np.zeros(1, dtype=np.int64)


def compare(path: Path) -> Iterator[tuple[str, str | None]]:
    """Each case's id, and how it is answered otherwise than recorded, None where it is not."""
    for case in cases(path):
        answer = ANSWERS[case["kind"]](case)
        expect = case["expect"]
        if not isinstance(expect, dict):
            yield case["id"], None if answer == expect else f"{answer!r} instead of {expect!r}"
            continue
        different = [
            f"{key}: {answer.get(key)!r} instead of {value!r}"
            for key, value in expect.items()
            if not _is(answer.get(key), value, key)
        ]
        yield case["id"], "; ".join(different) or None


def asked(path: Path) -> dict[str, str]:
    """What answers each case."""
    return {case["id"]: ASKED.get(case["kind"], "the formulas of MeasuredLoad") for case in cases(path)}


def _is(mine: Any, theirs: Any, key: str) -> bool:
    if isinstance(theirs, float) or isinstance(mine, float) or key == "rawScore":
        loose = {"riskCPU": 1e-5, "riskMemory": 1e-5, "rawScore": 1000.0}.get(key, 1e-6)
        relative = 1e-9 if key == "rawScore" else 0.0
        return mine is not None and math.isclose(mine, theirs, abs_tol=loose, rel_tol=relative)
    return bool(mine == theirs)


# who scores, and who rules out


def by_target(case: Case) -> Case:
    said = case["args"]
    settings = {"policy": "TargetLoadPacking", "targetUtilization": said["targetUtilization"]}
    estimates = {
        "defaultRequestsMilliCpu": said["defaultRequestsMilliCPU"],
        "defaultRequestsMultiplier": said["defaultRequestsMultiplier"],
    }
    last = _last(case["metrics"], "CPU", ("AVG", "Latest"))
    return {"score": scored(case, settings, estimates, {"cpu": last})}


def by_variation(case: Case) -> Case:
    said = case["args"]
    settings = {
        "policy": "LoadVariationRiskBalancing",
        "safeVarianceMargin": said["safeVarianceMargin"],
        "safeVarianceSensitivity": said["safeVarianceSensitivity"],
    }
    return {"score": scored(case, settings, {}, figures(case["metrics"]))}


def by_commitment(case: Case) -> Case:
    said = case["args"]
    settings = {
        "policy": "LowRiskOverCommitment",
        "smoothingWindowSize": said["smoothingWindowSize"],
        "riskLimitWeights": said["riskLimitWeights"],
    }
    measured = figures(case["metrics"])
    cluster, pod_class, plugin = world(case, settings, {}, measured)
    many = FIRST[:, None]
    risks = [float(plugin.commitment_risk(pod_class, cluster.nodes, at, ROW, many)[0, 0]) for at in (CPU, MEMORY)]
    known = plugin.is_known(cluster.nodes)[0]
    score = scored(case, settings, {}, measured)
    return {"score": score, "riskCPU": risks[CPU], "riskMemory": risks[MEMORY]} if known else {"score": score}


def by_power(case: Case) -> Case:
    models = [
        {"value": "" if name == NODE else name, "k0": one["k0"], "k1": one["k1"], "k2": one["k2"]}
        for name, one in (case["args"]["nodePowerModel"] or NO_MODEL).items()
    ]
    settings = {"policy": "Peaks", "power": {"nodeLabel": "kind", "models": models}}
    first = next(
        (
            one["value"]
            for one in case["metrics"] or ()
            if one["type"] == "CPU" and one["operator"] in ("AVG", "Latest")
        ),
        None,
    )
    cluster, pod_class, plugin = world(case, settings, {}, {"cpu": first})
    raw = float(plugin.watts(pod_class, cluster.nodes, ROW, FIRST[:, None])[0, 0])
    return {"rawScore": math.trunc(1e15 * raw) if math.isfinite(raw) else 0}  # unknown and beyond: 0 there, worst here


def normalised(case: Case) -> Case:
    raw = np.array(case["args"]["rawScores"], dtype=np.float64)
    return {"scores": [int(one) for one in measured_load.normalised_watts(raw, raw.min(), raw.max())]}


def volcano_filter(case: Case) -> Case:
    return {
        "ruledOutBy": ruled_out(
            case, case["thresholds"], {"cpu": case["cpuPercent"], "memory": case["memoryPercent"]}, ROOM, 300
        )
    }


def volcano_order(case: Case) -> Case:
    settings = {
        "policy": "Usage",
        "weight": case["usageWeight"],
        "resourceWeights": {"cpu": case["cpuWeight"], "memory": case["memoryWeight"]},
        "maxAgeSeconds": 300,
    }
    young = (
        {"cpu": case["cpuPercent"], "memory": case["memoryPercent"]} if case["metricsAgeSeconds"] is not None else {}
    )
    bare = {"capacity": ROOM, "allocatable": ROOM, "pod": {"containers": []}}
    cluster, pod_class, plugin = world(bare, settings, {}, young, age=case["metricsAgeSeconds"] or 0)
    cluster.nodes.load.use_of(pod_class).fresh[:] = 0  # its tables leave the pod itself out
    scores = plugin.scores(pod_class, cluster.nodes, ROW, FIRST)
    return {"score": 0 if scores is None else int(scores[0, 0]) * plugin.weight}


def volcano_unmeasured(case: Case) -> Case:
    cluster = Cluster()
    cluster.nodes.load.on, cluster.nodes.load.unmeasured_seconds = True, case["metricsIntervalSeconds"]
    cluster.put_node(node(ROOM, ROOM))
    cluster.nodes.load.measure(["cpu"], {NODE: (AT, [50.0])})
    status, ago = case["status"], case["startedSecondsAgo"]
    ours, bound = status in ("Allocated", "Binding"), status in ("Bound", "Running", "Succeeded")
    phase = status if status in ("Running", "Succeeded") else "Pending"
    record = cluster.put_pod(
        pod({"containers": [{}]}, "p", bound=bound, phase=phase, started=None if ago is None else AT - ago), keep=True
    )
    if ours and record is not None:
        with cluster.transaction() as step:
            step.put(ROW, FIRST, record.pod_class)
            step.commit()
        cluster.assume(record, 0)
    return {"counted": bool(cluster.nodes.load.fresh[0].any())}


def koordinator_filter(case: Case) -> Case:
    percent = {name: 100 * case["usage"][name] / case["allocatable"][name] for name in NAMES}
    bounds = {"cpu": 65, "memory": 95, **case["thresholdsPercent"]}
    return {
        "ruledOutBy": ruled_out(
            case, {name: bound for name, bound in bounds.items() if bound}, percent, case["allocatable"], 180
        )
    }


def koordinator_score(case: Case) -> Case:
    weights = {"cpu": 0, "memory": 0, **case["resourceWeights"]}
    settings = {
        "policy": "LeastUsed",
        "resourceWeights": weights,
        "dominantResourceWeight": case["dominantResourceWeight"],
        "maxAgeSeconds": case["metricsExpireSeconds"],
    }
    measured = {name: 100 * case["usage"][name] / case["allocatable"][name] for name in NAMES}
    recent = [{**one, "boundSecondsAfterWindowEnd": 0} for one in case["estimatedPods"]]
    bare = {**case, "capacity": case["allocatable"], "recentPods": recent}
    old = case["metricsAgeSeconds"] >= case["metricsExpireSeconds"]  # at its end already, there
    return {"score": scored(bare, settings, {}, measured, age=case["metricsAgeSeconds"] + old)}


# the parts


def risk_score(case: Case) -> Case:
    found = load_risk.variation_score(_load(case["stats"]), case["margin"], case["sensitivity"])
    return {"rounded": int(np.floor(found[0] + 0.5))}


def mu_sigma(case: Case) -> Case:
    mean, deviation = load_risk.mean_and_deviation(_load(case["stats"]))
    return {"mu": float(mean[0]), "sigma": float(deviation[0])}


def one_risk(case: Case) -> Case:
    name, sums = case["resource"], case["sums"]
    share, offered = figures(case["metrics"]), case["allocatable"][case["resource"]]
    numbers = [offered, *(sums[one][name] for one in ("request", "limit", "requestBefore", "limitBefore"))]
    of = Commitment(*(np.array([float(one)]) for one in numbers))
    used, varied = (np.array([_of(offered, share[key])]) for key in (name, f"{name}-deviation"))
    return {"risk": float(load_risk.overcommit_risk(of, used, varied, case["smoothingWindowSize"], case["weight"])[0])}


def beta_fit(case: Case) -> Case:
    alpha, beta, fits = load_risk.fitted(np.array([case["m1"]]), np.array([case["m2"]]))
    return {"fits": bool(fits[0]), "alpha": float(alpha[0]), "beta": float(beta[0])}


def beta_probability(case: Case) -> Case:
    numbers = (np.array([float(case[key])]) for key in ("alpha", "beta", "x"))
    return {"probability": float(load_risk.probability(*numbers)[0])}


def most_variance(case: Case) -> Case:
    return {"variance": float(load_risk.most_variance(np.array([float(case["mean"])]))[0])}


def stats(case: Case) -> Case | None:
    name, offered = case["resource"], case["allocatable"][case["resource"]]
    measured, unit = figures(case["metrics"]), 1 if case["resource"] == "cpu" else 1 << 20
    if measured[name] is None and measured[f"{name}-deviation"] is None:
        return None
    used, varied = ((measured[key] or 0) / 100 * offered for key in (name, f"{name}-deviation"))
    amounts = {"capacity": offered, "request": case["request"][name], "usedAverage": used, "usedDeviation": varied}
    return {key: amount / unit for key, amount in amounts.items()}


def requests(case: Case) -> Case:
    return dict(zip(NAMES, effective(spec(case["pod"]), "requests"), strict=True))


def limits(case: Case) -> Case:
    return dict(zip(NAMES, effective(spec(case["pod"]), "limits"), strict=True))


def sums(case: Case) -> Case:
    cluster, pod_class, _ = world(
        {**case, "capacity": case["allocatable"]}, {"policy": "LowRiskOverCommitment"}, {}, {"cpu": 0}
    )
    load, use = cluster.nodes.load, cluster.nodes.load.use_of(pod_class)
    offered = [case["allocatable"][name] for name in NAMES]
    before = {"request": load.requests[0], "limit": load.limits[0]}
    after = {"request": load.requests[0] + use.requests, "limit": load.limits[0] + use.limits}
    found = {**after, **{f"{key}Before": value for key, value in before.items()}}
    for key in ("request", "requestBefore"):
        found[key] = np.minimum(found[key], offered)
    return {key: dict(zip(NAMES, map(int, value), strict=True)) for key, value in found.items()}


def koordinator_estimate(case: Case) -> Case:
    said = {"cpu": 85, "memory": 70, **case["scalingFactors"]}
    cluster, pod_class, _ = world(
        {"capacity": ROOM, "allocatable": ROOM, "pod": case["pod"]},
        {"policy": "LeastUsed"},
        {"estimatedScalingFactors": said},
        {"cpu": 0},
    )
    found = cluster.nodes.load.use_of(pod_class).fresh[FreshColumn.SCALED :]
    return {"cpu": int(found[CPU]), "memory": int(found[MEMORY])}


def composite(case: Case) -> Case:
    weights = (case["cpuWeight"], case["memoryWeight"])
    return {
        "value": float(measured_load.composite_load(np.array([case["cpu"]]), np.array([case["memory"]]), weights)[0])
    }


def risk_factor(case: Case) -> Case:
    return {"value": float(measured_load.risk_factors(np.array([case["load"]]), case["threshold"], case["factor"])[0])}


def burst(case: Case) -> Case:
    by = Estimates(request_ratio=case["requestRatio"], burst_ratio=case["burstRatio"])
    return {"value": burst_estimate(case["request"], case["limit"], by, case["riskFactor"])}


def best_effort(case: Case) -> Case:
    return {"value": best_effort_estimate(case["value"], case["riskFactor"])}


def used_part(case: Case) -> Case:
    numbers = (np.array([float(case[key])]) for key in ("measuredPercent", "notYetMeasured", "capacity"))
    return {"value": float(measured_load.used_part(*numbers)[0])}


def volcano_score(case: Case) -> Case:
    left = [100 * (1 - np.array([case[name]])) for name in NAMES]
    found = measured_load.weighted_mean(left, (case["cpuWeight"], case["memoryWeight"]))
    return {"value": float(found[0]) * case["usageWeight"]}


ANSWERS: dict[str, Callable[[Case], Any]] = {
    "targetLoadPacking": by_target,
    "loadVariationRiskBalancing": by_variation,
    "lowRiskOverCommitment": by_commitment,
    "peaks": by_power,
    "peaksNormalize": normalised,
    "volcanoFilter": volcano_filter,
    "volcanoOrder": volcano_order,
    "volcanoStillUnmeasured": volcano_unmeasured,
    "koordinatorFilter": koordinator_filter,
    "koordinatorScore": koordinator_score,
    "riskScore": risk_score,
    "muSigma": mu_sigma,
    "overcommitRisk": one_risk,
    "betaFit": beta_fit,
    "betaProbability": beta_probability,
    "maxVariance": most_variance,
    "resourceStats": stats,
    "effectiveRequests": requests,
    "effectiveLimits": limits,
    "requestsAndLimits": sums,
    "koordinatorEstimate": koordinator_estimate,
    "volcanoComposite": composite,
    "volcanoRiskFactor": risk_factor,
    "volcanoEstimate": burst,
    "volcanoBestEffort": best_effort,
    "volcanoUtilization": used_part,
    "volcanoScore": volcano_score,
}
ASKED = {
    **dict.fromkeys(
        ("targetLoadPacking", "loadVariationRiskBalancing", "lowRiskOverCommitment", "peaks", "volcanoOrder"),
        "MeasuredLoad",
    ),
    "koordinatorScore": "MeasuredLoad",
    "koordinatorFilter": "LoadThresholds",
    "volcanoFilter": "LoadThresholds",
    "volcanoStillUnmeasured": "LoadColumns",
    "requestsAndLimits": "LoadColumns",
    "koordinatorEstimate": "LoadColumns",
}
ROOM = {"cpu": 64_000, "memory": 1 << 38}


# a case as a cluster


def scored(case: Case, settings: Case, estimates: Case, measured: Case, age: float = 0) -> int:
    """What a profile with these settings of `load` gives the node for the pod; without an opinion 0."""
    cluster, pod_class, plugin = world(case, settings, estimates, measured, age=age)
    scores = plugin.scores(pod_class, cluster.nodes, ROW, FIRST)
    return 0 if scores is None else int(scores[0, 0])


def ruled_out(case: Case, bounds: dict[str, float], percent: Case, offered: Case, max_age: int) -> str | None:
    settings = {
        "thresholds": [{"metric": name, "above": bound} for name, bound in bounds.items()],
        "maxAgeSeconds": max_age,
    }
    if not bounds:
        return None
    bare = {"capacity": offered, "allocatable": offered, "pod": {"containers": []}}
    cluster, pod_class, _ = world(
        bare, {**settings, "policy": "Usage"}, {}, percent, age=case.get("metricsAgeSeconds", 0)
    )
    plugin = next(one for one in profile(settings).inter_pod if isinstance(one, LoadThresholds))
    state = plugin.pre_filter(pod_class, cluster.nodes, NO_FLAVOR)
    return next((one.reason.split()[1] for one in (state.rejections() if state else ()) if one.rows[0]), None)


MEASURED: Case = {"source": "Prometheus", "address": "http://prometheus"}


def profile(settings: Case, estimates: Case | None = None) -> Any:
    """The profile of a configuration that goes by load."""
    document = {"profiles": [{"load": settings}], "measurements": MEASURED | {"estimates": estimates or {}}}
    return profiles_of(TuttiConfiguration.model_validate(document))["tutti"]


def world(
    case: Case, settings: Case, estimates: Case, measured: Case, *, age: float = 0
) -> tuple[Cluster, PodClass, MeasuredLoad]:
    """The node of a case with its pods and what was measured of it; the class of its pod; and who scores."""
    document = {"profiles": [{"load": settings}], "measurements": MEASURED | {"estimates": estimates}}
    configuration = TuttiConfiguration.model_validate(document)
    assert configuration.measurements is not None
    cluster = Cluster()
    load = cluster.nodes.load
    load.on, cluster.classes.reads_limits = True, True
    load.estimates, load.now = estimates_of(configuration.measurements), AT + age
    cluster.put_node(node(case["capacity"], case["allocatable"]))
    for number, one in enumerate(case.get("podsOnNode", [])):
        cluster.put_pod(pod(one, f"there-{number}", started=AT - 10_000), keep=True)
    for number, one in enumerate(case.get("recentPods", [])):
        started = AT + one["boundSecondsAfterWindowEnd"]
        cluster.put_pod(pod(one, f"recent-{number}", started=started), keep=True)
    found = {name: value for name, value in measured.items() if value is not None}
    if found or case.get("metrics") is not None:
        load.measure(list(found), {NODE: (AT, list(found.values()))})
    plugin = next(one for one in profiles_of(configuration)["tutti"].fill if isinstance(one, MeasuredLoad))
    return cluster, cluster.classes.of(spec(case["pod"])), plugin


def node(capacity: Case, allocatable: Case) -> Node:
    return Node(ObjectMeta(name=NODE), status=NodeStatus(_quantities(allocatable), _quantities(capacity)))


def pod(said: Case, name: str, *, started: float | None = None, bound: bool = True, phase: str = "Running") -> Pod:
    since = None if started is None else datetime.fromtimestamp(started, UTC)
    return Pod(
        ObjectMeta(namespace="ns", name=name, uid=name),
        spec(said, NODE if bound else ""),
        PodStatus(phase=phase, start_time=since),
    )


def spec(said: Case, node_name: str = "") -> PodSpec:
    parts = {"containers": said.get("containers") or [], "init_containers": said.get("initContainers") or []}
    read = {key: [_container(one) for one in some] for key, some in parts.items()}
    return PodSpec(**read, node_name=node_name, overhead=_quantities(said.get("overhead") or {}))


def figures(metrics: list[Case] | None) -> Case:
    """What LoadVariationRiskBalancing and LowRiskOverCommitment take of what the load watcher says."""
    found: Case = {}
    for name, kind in (("cpu", "CPU"), ("memory", "Memory")):
        average = _last(metrics, kind, ("AVG",))
        found[name] = _last(metrics, kind, ("Latest", "")) if average is None else average
        found[f"{name}-deviation"] = _last(metrics, kind, ("STD",))
    return found


def _last(metrics: list[Case] | None, kind: str, operators: tuple[str, ...]) -> float | None:
    mine = [one["value"] for one in metrics or () if one["type"] == kind and one["operator"] in operators]
    return mine[-1] if mine else None


def _of(offered: float, percent: float | None) -> float:
    return np.nan if percent is None else percent / 100 * offered


def _load(numbers: Case) -> MeasuredAmounts:
    keys = ("capacity", "request", "usedAverage", "usedDeviation")
    return MeasuredAmounts(*(np.array([float(numbers[key])]) for key in keys))


def _container(said: Case) -> Container:
    amounts = (_quantities(said.get(key) or {}) for key in ("requests", "limits"))
    return Container(resources=ResourceRequirements(*amounts))


def _quantities(amounts: Case) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()}
