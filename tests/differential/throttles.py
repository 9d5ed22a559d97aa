"""Asks recorded cases of kube-throttler of the engine, and their parts of the rules that it goes by.

A `check` is asked of a whole engine: pods that hold a reservation are ones that it has decided to bind and has no answer
for; those that only wait are gated. A `story` is one of pods that come one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tests.differential.records import cases
from tests.engine.world import World
from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import Namespace, Node, Pod
from tutti.api.kinds.temporary_quotas import seconds_of
from tutti.api.resources import parse_amounts
from tutti.api.throttles import GROUP, VERSION, Threshold, spec_of
from tutti.cluster.requests import pod_requests
from tutti.engine.cycle.engine import Engine
from tutti.engine.records import observations as seen
from tutti.engine.records.decisions import Bind, PatchStatus
from tutti.quota.throttle_terms import TermsOfMany
from tutti.quota.throttles import NOTHING, Flags, Limits, Load, ThrottleStatus, check, limits_of, load_of, throttle_of

Case = dict[str, Any]

_API = f"{GROUP}/{VERSION}"
_CLUSTER, _NAMESPACED = "ClusterThrottle", "Throttle"
_ENOUGH = {"cpu": "1000", "memory": "1000Gi", "ephemeral-storage": "1000Gi", "pods": "1000"} | {
    f"{vendor}.com/gpu": "1000" for vendor in ("amd", "nvidia")
}


def compare(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield for each case its id and what is different, or None."""
    for case in cases(path):
        got, expected = ASKED[case["kind"]](case), case["expect"]
        yield case["id"], None if got == _plain(expected) else f"{got} is not {_plain(expected)}"


def asked(path: Path) -> dict[str, str]:
    """What answers each case, where that is not the whole engine."""
    return {one["id"]: "quota/throttles.py" for one in cases(path) if one["kind"] not in ("check", "story")}


def _plain(said: Any, inside: str = "") -> Any:
    """Return an answer with quantities as amounts; what is used of a resource is left out where it is nothing."""
    if not isinstance(said, dict):
        return said
    if inside.rpartition(".")[2] == "requests":
        amounts = {
            name: parse_amounts({name: one})[name] if isinstance(one, str) else one for name, one in said.items()
        }
        return {name: one for name, one in amounts.items() if one or isinstance(one, bool) or "threshold" in inside}
    out = {name: _plain(one, f"{inside}.{name}".lstrip(".")) for name, one in said.items()}
    return {name: one for name, one in out.items() if name != "requests" or one}


def _threshold(said: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if said.get("pods") is not None:
        out["resourceCounts"] = {"pod": said["pods"]}
    if said.get("requests"):
        out["resourceRequests"] = said["requests"]
    return out


def _limits(said: Mapping[str, Any]) -> Limits:
    return limits_of(msgspec.convert(_threshold(said), Threshold))


def _load(said: Mapping[str, Any]) -> Load:
    return Load(said.get("pods"), parse_amounts(said.get("requests", {})))


def _pod_spec(said: Case, **more: Any) -> dict[str, Any]:
    init = [
        {"name": f"i{number}", "resources": {"requests": one.get("requests", one)}}
        | ({"restartPolicy": "Always"} if one.get("always") else {})
        for number, one in enumerate(said.get("initContainers", []))
    ]
    containers = [{"name": f"c{n}", "resources": {"requests": one}} for n, one in enumerate(said["containers"])]
    overhead = {"overhead": said["overhead"]} if said.get("overhead") else {}
    return {"containers": containers, "initContainers": init, **overhead, **more}


def _requests(said: Case) -> Load:
    return load_of(pod_requests(msgspec.convert({"spec": _pod_spec(said)}, Pod).spec))


def _throttle(said: Case) -> dict[str, Any]:
    """A Throttle or ClusterThrottle as its user writes it."""
    overrides = [
        {"begin": one["begin"], "end": one["end"], "threshold": _threshold(one["threshold"])}
        for one in said.get("temporaryThresholdOverrides", [])
    ]
    spec = {
        "throttlerName": "kube-throttler",
        "selector": {"selectorTerms": said.get("selectorTerms", [])},
        "threshold": _threshold(said.get("threshold", {})),
        "temporaryThresholdOverrides": overrides,
    }
    meta = {"name": "t", "uid": "u-t"} | (
        {} if said.get("cluster") else {"namespace": said.get("namespace", "default")}
    )
    return {"apiVersion": _API, "metadata": meta, "spec": spec}


def _check(case: Case) -> dict[str, Any]:
    said, now = case["throttle"], seconds_of(case["now"])
    kind = _CLUSTER if said["cluster"] else _NAMESPACED
    engine = Engine(TuttiConfiguration(throttles={"name": "kube-throttler"}))
    for name, labels in case["namespaces"].items():
        engine.observe(seen.NamespaceSeen(msgspec.convert({"metadata": {"name": name, "labels": labels}}, Namespace)))
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": _ENOUGH}}
    engine.observe(seen.NodeSeen(msgspec.convert(node, Node)))
    for pod in case["pods"]:
        engine.observe(seen.PodSeen(_pod(pod, gated=pod["name"] not in case["reserved"])))
    engine.observe(seen.Synced())
    engine.decide(now)
    raw = _throttle(said)
    engine.observe(seen.ThrottleSeen(kind, raw))
    written = {}
    for decision in engine.decide(now):
        if isinstance(decision, PatchStatus) and decision.kind == kind:
            written = decision.status
    key = (kind, raw["metadata"].get("namespace", ""), "t")
    book = engine.state.throttles
    counted = sorted(about[1] for about, one in book._counted.items() if one.is_used)
    candidate = _pod(case["candidate"], gated=False)
    engine.observe(seen.PodSeen(candidate))
    decided = engine.decide(now)
    meta = candidate.metadata
    matches = key in book.of(meta.namespace, meta.labels)
    found = {
        "counted": counted,
        "matchesCandidate": matches,
        "used": _amounts(written["used"]),
        "threshold": _amounts(written["calculatedThreshold"]["threshold"], keep_zero=True),
        "skippedOverrides": len(written["calculatedThreshold"].get("messages", [])),
        "throttled": {name: one for name, one in _flags(written["throttled"]).items() if one or name != "pods"},
    }
    changes = book.throttles[key].next_change(now)
    if "nextChangeInSeconds" in case["expect"]:
        found["nextChangeInSeconds"] = changes - now
    if any(isinstance(one, Bind) and one.name == meta.name for one in decided):
        status = ThrottleStatus.NOT_THROTTLED.value
    else:
        why = engine.state.workloads["Pod", meta.namespace, meta.name].explanation
        assert why is not None
        status = why.details["status"]
    if matches:
        found["status"] = status
    else:
        assert status == ThrottleStatus.NOT_THROTTLED
    return _plain(found)


def _pod(said: Case, *, gated: bool) -> Pod:
    """A pod; one that only waits is gated, so that nothing is decided about it."""
    waits = gated and not said.get("node") and said["phase"] not in ("Succeeded", "Failed")
    gates = {"schedulingGates": [{"name": "waits"}]} if waits else {}
    spec = _pod_spec(said, schedulerName=said["scheduler"], nodeName=said.get("node", ""), **gates)
    meta = {"name": said["name"], "namespace": said["namespace"], "uid": said["name"], "labels": said.get("labels", {})}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": said["phase"]}}, Pod)


def _amounts(said: Mapping[str, Any], *, keep_zero: bool = False) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if "resourceCounts" in said:
        out["pods"] = said["resourceCounts"]["pod"]
    amounts = parse_amounts(said.get("resourceRequests", {}))
    amounts = {name: amount for name, amount in amounts.items() if amount or keep_zero}
    if amounts:
        out["requests"] = amounts
    return out


def _flags(said: Mapping[str, Any]) -> dict[str, bool]:
    pods = {"pods": said["resourceCounts"]["pod"]} if "resourceCounts" in said else {}
    return {**pods, **said.get("resourceRequests", {})}


def _story(case: Case) -> dict[str, Any]:
    world = World(throttles={"name": "kube-throttler"})
    world.node("n1", cpu=1000)
    kind = _CLUSTER if case["cluster"] else _NAMESPACED
    term: dict[str, Any] = {"podSelector": {}} | ({"namespaceSelector": {}} if case["cluster"] else {})
    world.throttle(kind, _throttle({**case, "selectorTerms": [term]}))
    groups: dict[str, int] = {}
    for pod in case["createdInOrder"]:
        if "group" in pod:
            groups[pod["group"]] = groups.get(pod["group"], 0) + 1
    for name, size in groups.items():
        world.pod_group(name, size)
    for pod in case["createdInOrder"]:
        world.pod(pod["name"], cpu=pod["cpu"], memory="0", gpus=0, group=pod.get("group", ""))
        world.run()
    world.decide(2.0)  # amounts alone are told a little later
    placed = [one.metadata.name for one in world.pods.values() if one.spec.node_name]
    waiting = {one.metadata.name: _waits_for(world, one) for one in world.pods.values() if not one.spec.node_name}
    status = world.throttle_status(kind)
    return _plain(
        {
            "scheduled": placed,
            "waiting": waiting,
            "used": _amounts(status["used"]),
            "throttled": _flags(status["throttled"]),
        }
    )


def _waits_for(world: World, pod: Pod) -> str:
    key = world.engine.state.pod_group_of[pod.metadata.namespace, pod.metadata.name][0]
    why = world.engine.state.workloads[key].explanation
    assert why is not None
    return why.details["status"]


def _calculated(case: Case) -> dict[str, Any]:
    raw = _throttle(case)
    found = throttle_of(_NAMESPACED, raw["metadata"], spec_of(raw))
    limits = found.limits_at(seconds_of(case["now"]))
    threshold: dict[str, Any] = {} if limits.pods is None else {"pods": limits.pods}
    threshold |= {"requests": limits.requests} if limits.requests else {}
    return _plain({"threshold": threshold, "skippedOverrides": len(found.problems)})


def _active(case: Case) -> dict[str, Any]:
    raw = _throttle({"temporaryThresholdOverrides": [{"begin": case["begin"], "end": case["end"], "threshold": {}}]})
    found = throttle_of(_NAMESPACED, raw["metadata"], spec_of(raw))
    return {"active": found.overrides[0].is_active(seconds_of(case["now"])) if found.overrides else None}


def _over(case: Case) -> dict[str, Any]:
    flags = _limits(case["threshold"]).over(_load(case["used"]), on_equal=case["onEqual"])
    return _plain({"pods": flags.pods, "requests": dict(flags.requests)})


def _applies(case: Case) -> dict[str, Any]:
    said = dict(case["throttled"])
    return {"throttled": Flags(said.pop("pods", False), said).hit(_requests(case["candidate"]))}


def _selects(case: Case) -> dict[str, Any]:
    kind = _CLUSTER if case["cluster"] else _NAMESPACED
    raw = _throttle(case)
    found = throttle_of(kind, raw["metadata"], spec_of(raw))
    terms = TermsOfMany[str]()
    terms.put(found.name, found.terms)
    return {"selects": bool(terms.selecting(case["namespaceLabels"], case["podLabels"]))}


def _amount(case: Case) -> dict[str, Any]:
    return _plain({"requests": _requests(case["pod"]).requests})


def _group(case: Case) -> dict[str, Any]:
    rest = _load(case["restOfGroup"])
    status = check(
        _limits(case["threshold"]),
        _load(case["used"]),
        _load(case["reserved"]),
        _requests(case["candidate"]),
        rest=NOTHING if not rest.pods and not any(rest.requests.values()) else rest,
        cluster=True,
    )
    return {"status": status.value}


ASKED: dict[str, Callable[[Case], dict[str, Any]]] = {
    "check": _check,
    "story": _story,
    "calculateThreshold": _calculated,
    "overrideActive": _active,
    "isThrottled": _over,
    "throttledFor": _applies,
    "selects": _selects,
    "podAmount": _amount,
    "groupCheck": _group,
}
