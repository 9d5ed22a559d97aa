"""Compares what an `Engine` decides about pods with claims on devices with what kube-scheduler 1.36 was seen to decide.

The engine is told of what existed and asked once: on which node the pod goes and which devices its claims get; if on
none, what is said of it. What every other node has for the claims, and the scores, are asked of the plugins themselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.differential.devices_reading import (
    Case,
    DeviceWorld,
    allotments,
    decided,
    world_of,
)
from tests.differential.known import BY_MESSAGE, BY_TAG, Known
from tests.differential.records import cases
from tests.differential.scheduler import best_nodes, difference_in_scores
from tests.placement.single_decision import decide
from tutti.api.devices import Allocation, ResourceClaim, ResourceClaimSpec
from tutti.api.quantity import parse_quantity
from tutti.cluster.devices.allocation import allocation_of
from tutti.cluster.devices.allotments import ClaimAllotment
from tutti.cluster.devices.asks import ClaimKey
from tutti.cluster.devices.extended import EXTENDED
from tutti.cluster.transaction import Transaction
from tutti.engine.records.decisions import AnyDecision, Bind, SetPodCondition, WriteDeviceClaim, WriteExtendedClaim
from tutti.kube.extended_claims import claim_document
from tutti.placement.framework import NO_FLAVOR
from tutti.placement.profile import DEFAULT_PROFILE, counted_rejections

OPTIONS = {"only", "skip_tag"}
FAMILIES = (
    "admin",
    "all",
    "allocated",
    "basic",
    "binding",
    "cel",
    "constraints",
    "consumable",
    "errors",
    "extended",
    "first-available",
    "group-claims",
    "mixed",
    "network",
    "partitionable",
    "pools",
    "taint-rules",
    "taints",
    "template",
)

_FREED = re.compile(
    r" (?:(?:no new claims to deallocate|still not schedulable|deallocation of ResourceClaim completed"
    r"|deletion of ResourceClaim completed), preemption: |ResourceClaim unreserved for PodGroup|could not find ResourceClaim )"
)
"""What kube-scheduler adds to its reasons of what it has freed, or could not."""
_FAULT = 'running "DynamicResources" filter plugin: '
_ELSEWHERE = "some other Filter operation failed"
_MEANTIME = "got allocated elsewhere in the meantime"


def compare(path: Path, *, only: str = "", skip_tag: str = "") -> Iterator[tuple[str, str | None]]:
    """Each case's id, and how it is decided otherwise than recorded, None where it is not."""
    for case in cases(path):
        if skip_tag not in case["tags"] and (not only or case["family"] == only):
            yield f"dra-{case['id']}", "; ".join(differences(case)) or None


def asked(path: Path) -> dict[str, str]:
    """What answers each case, and what it is asked, by its id."""
    return {f"dra-{case['id']}": f"Engine, {question(case)}" for case in cases(path)}


def excuses(path: Path) -> dict[str, Known]:
    """What cases may differ in because of what they are about, or of what kube-scheduler said of them, by their id."""
    found: dict[str, Known] = {}
    for case in cases(path):
        said = case["result"]["message"] or ""
        for known in (
            *(BY_TAG[tag] for tag in BY_TAG if tag in case["tags"]),
            *(BY_MESSAGE[text] for text in BY_MESSAGE if text in said),
        ):
            found[f"dra-{case['id']}"] = known
    return found


def question(case: Case) -> str:
    """What a case asks: which node and devices, why none, or why it is not even looked at."""
    result = case["result"]
    if result["gated"]:
        return "not looked at"
    if goes_to(case) is not None:
        return "node and devices"
    return "scheduler error" if result["reason"] == "SchedulerError" else "nobody fits"


def goes_to(case: Case) -> str | None:
    """The node that the claims were allocated for in the first attempt."""
    result = case["result"]
    if _MEANTIME in (result["message"] or "") and result["later"]:
        node: str = result["later"]["node"]
        return node
    found: str | None = result["node"] or result["waitingForDevices"]
    return found


def differences(case: Case) -> list[str]:
    """What is decided otherwise than was recorded, one text per difference."""
    world = world_of(case)
    return [*_outcome(case, world), *_nodes(case, world)]


def _outcome(case: Case, world: DeviceWorld) -> Iterator[str]:
    result = case["result"]
    node, given, decisions, claims = decided(world)
    said = [one.message for one in decisions if isinstance(one, SetPodCondition)]
    bound = [one.node for one in decisions if isinstance(one, Bind)]
    elsewhere = bool(node) and node != goes_to(case)  # as good, but its devices may be ready when others are not
    if bound != ([node] if node and result["node"] else []) and not (elsewhere and bound in ([], [node])):
        yield f"bound: {bound}, to go to {node}"
    best = best_nodes(result | {"node": goes_to(case)})
    if (node is None) != (goes_to(case) is None) or (node is not None and node not in best):
        yield f"node: {node} instead of {best}"
    freed = [one.name for one in decisions if isinstance(one, WriteDeviceClaim) and one.change == "free"]
    if bool(freed) != bool(result["deallocated"]):  # of several kube-scheduler takes any
        yield f"freed: {freed} instead of {result['deallocated']}"
    if result["gated"] and not any(result["gated"] in one for one in said):
        yield f"message: {said} instead of {result['gated']!r}"
    if result["message"] and goes_to(case) is None and not result["gated"]:
        wanted = [_FREED.split(result["message"])[0]]
        if wanted[0].startswith(_FAULT):  # of several nodes of which it cannot be told any may be named
            faults = {f"{_FAULT}{one}" for one in _faults(world)}
            wanted += faults if wanted[0] in faults else ()
        text = _with_names(world, said[0]) if said else ""
        every = f"0/{len(world.nodes)} nodes are available: {text}."
        if not any(one in (text, every) or text.startswith(f"{one} ") for one in wanted):
            yield f"message: {text!r} instead of {wanted[0]!r}"
    if node is not None and node == goes_to(case):
        yield from _allocations(case, world, given)
        yield from _extended(case, decisions)
    if bound and bound == [result["node"]]:
        yield from _users(case, claims)


def _users(case: Case, claims: Mapping[ClaimKey, ResourceClaim]) -> Iterator[str]:
    """Compare who is noted on the claims as their user."""
    namespace = case["probe"]["metadata"]["namespace"]
    for one in case["result"]["claims"]:
        claim = claims.get((namespace, one.get("name", "")))
        if claim is None or one.get("extendedResourceClaim"):
            continue
        mine = {(user.resource, user.name) for user in claim.status.reserved_for}
        wanted = {(user["resource"], user["name"]) for user in (one.get("status") or {}).get("reservedFor", ())}
        if mine != wanted:
            yield f"claim {one['name']} is reserved for {sorted(mine)} instead of {sorted(wanted)}"


def _extended(case: Case, decisions: Sequence[AnyDecision]) -> Iterator[str]:
    """Compare the claim that is made for extended resources, and what its pod is told of it."""
    result = case["result"]
    made = [one for one in decisions if isinstance(one, WriteExtendedClaim) and one.change == "make"]
    told = [one for one in decisions if isinstance(one, WriteExtendedClaim) and one.change == "tell"]
    wanted = [one for one in result["claims"] if one.get("extendedResourceClaim")]
    documents = [claim_document(one) for one in made]
    mine = [(one["metadata"]["generateName"], one["metadata"]["ownerReferences"], one["spec"]) for one in documents]
    theirs = [(one["generateName"], one["ownerReferences"], one["spec"]) for one in wanted]
    if mine != theirs:
        yield f"claim that is made: {mine} instead of {theirs}"
    said = result.get("extendedResourceClaimStatus")
    spec = case["probe"]["spec"]
    names = [one["name"] for one in (*spec.get("initContainers", ()), *spec["containers"])]
    mappings = [
        (names.index(one["containerName"]), one["resourceName"], one["requestName"])
        for one in (said or {}).get("requestMappings", ())
    ]
    if [one.mappings for one in told] != ([mappings] if said else []):
        yield f"pod is told: {[one.mappings for one in told]} instead of {mappings}"


def _faults(world: DeviceWorld) -> Iterator[str]:
    """What cannot be told of single nodes."""
    cluster, pod_class = world.cluster(), world.pod_class
    for rejection, hit in counted_rejections(pod_class, cluster.nodes, NO_FLAVOR, DEFAULT_PROFILE):
        if rejection.faulty and hit.any():
            yield _with_names(world, rejection.reason)


def _with_names(world: DeviceWorld, text: str) -> str:
    """A message with the names of claims in place of what the pod calls them."""
    for name, claim in world.claims_of_probe.items():
        text = re.sub(rf"\bclaim {name}\b", f"claim team-a/{claim}", text)
    return text


def _nodes(case: Case, world: DeviceWorld) -> Iterator[str]:
    """What every node has for the pod, and what is allocated on the one that was recorded."""
    result = case["result"]
    cluster, pod_class = world.cluster(), world.pod_class
    nodes = cluster.nodes
    said: dict[str, list[str]] = {}
    for rejection, hit in counted_rejections(pod_class, nodes, NO_FLAVOR, DEFAULT_PROFILE):
        for row in hit.nonzero()[0].tolist():
            said.setdefault(nodes.names[row], []).append(rejection.reason)
    for name, expected in (result["nodes"] or {}).items():
        if _ELSEWHERE in expected.get("reason", ""):
            continue
        wanted = expected.get("reason", expected.get("error"))
        found = _with_names(world, said[name][0]) if name in said else None
        if found != wanted:
            yield f"{name}: {found!r} instead of {wanted!r}"
    if result["gated"] or result["reason"] == "SchedulerError":
        return
    if result["feasibleNodes"] is not None:
        yield from difference_in_scores(decide(pod_class, nodes), result)
    node = goes_to(case)
    if node is None:
        return
    with Transaction(nodes) as transaction:
        if not transaction.allot(pod_class, nodes.rows[node]):
            yield f"{node} gives no devices"
            return
        yield from _allocations(case, world, allotments(nodes, pod_class, node))


def _allocations(case: Case, world: DeviceWorld, given: Sequence[ClaimAllotment]) -> Iterator[str]:
    """Compare what is written on claims."""
    recorded = {one["name"]: one for one in case["result"]["claims"] if "name" in one}
    extended = next((one for one in case["result"]["claims"] if one.get("extendedResourceClaim")), None)
    for one in given:
        name = world.claims_of_probe.get(one.ask.name, "")
        found = extended if one.ask.name == EXTENDED else recorded.get(name)
        if found is None or not (found.get("status") or {}).get("allocation"):
            yield f"claim {name or one.ask.name}: something instead of nothing"
            continue
        spec = world.specs.get(name) or ResourceClaimSpec()
        allocation = allocation_of(one, spec, world.device_classes, ("some",))
        mine, wanted = _plain(allocation), _recorded(found["status"]["allocation"])
        if mine != wanted:
            yield f"claim {name or one.ask.name}: {mine} instead of {wanted}"


def _plain(allocation: Allocation) -> Any:
    return _recorded(json.loads(msgspec.json.encode(allocation)))


def _recorded(raw: Any) -> Any:
    """An allocation without what differs each time, and quantities as numbers."""
    out = {key: value for key, value in raw.items() if key != "allocationTimestamp"}
    results = []
    for one in out["devices"].get("results", ()):
        consumed = {key: parse_quantity(value) for key, value in one.get("consumedCapacity", {}).items()}
        tolerations = [
            {key: value for key, value in said.items() if (key, value) != ("operator", "Equal")}
            for said in one.get("tolerations", ())
        ]
        rest = {key: value for key, value in one.items() if key not in ("shareID", "consumedCapacity", "tolerations")}
        results.append((rest, consumed, tolerations, "shareID" in one))
    return results, out["devices"].get("config", []), out.get("nodeSelector")
