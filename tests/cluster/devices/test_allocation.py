"""What claims find on a node: which pools count, in which order devices are taken, and what makes a node unanswerable.

Each case was put to kube-scheduler 1.36.2 (its plugin dynamicresources and its incubating allocator); the rule's place
there stands with it.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.differential.devices_reading import DeviceWorld, allotments, world_of
from tutti.api.selectors import NodeSelector
from tutti.cluster.transaction import Transaction
from tutti.placement.framework import NO_FLAVOR
from tutti.placement.plugins.devices import DynamicResources
from tutti.placement.profile import DEFAULT_PROFILE, counted_rejections

DRIVER = "gpu.example.com"
Raw = dict[str, Any]


def _slice(name: str, *devices: Raw, pool: str = "p", count: int = 1, generation: int = 1, **where: Any) -> Raw:
    place = where or {"nodeName": "n"}
    numbers = {"name": pool, "generation": generation, "resourceSliceCount": count}
    return {"metadata": {"name": name}, "spec": {"driver": DRIVER, "pool": numbers, "devices": list(devices), **place}}


def _claim(number: int, *requests: Raw, **more: Any) -> Raw:
    spec = {"devices": {"requests": list(requests), **more.pop("devices", {})}}
    return {"metadata": {"name": f"c{number}", "namespace": "team-a", "uid": f"c{number}"}, "spec": spec, **more}


def _all(selector: str = "true") -> Raw:
    selectors = [{"cel": {"expression": selector}}]
    return {"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "All", "selectors": selectors}}


def _some(count: int = 1, **more: Any) -> Raw:
    return {"name": "r", "exactly": {"deviceClassName": "any", "count": count, **more}}


def _sub(name: str, **more: Any) -> Raw:
    return {"name": name, "deviceClassName": "any", **more}


def _allocated(driver_pool_device: str, request: str, **more: Any) -> Raw:
    driver, pool, device = driver_pool_device.split("/")
    result = {"request": request, "driver": driver, "pool": pool, "device": device, **more}
    return {"allocation": {"devices": {"results": [result]}}}


def _world(slices: list[Raw], claims: list[Raw]) -> DeviceWorld:
    used = [one for one in claims if one["metadata"]["namespace"] == "team-a"]
    refs = [{"name": one["metadata"]["name"], "resourceClaimName": one["metadata"]["name"]} for one in used]
    room = {"cpu": "8", "memory": "8Gi", "pods": "10"}
    return world_of(
        {
            "nodes": [
                {"metadata": {"name": name}, "status": {"allocatable": room, "capacity": room}} for name in ("n", "m")
            ],
            "pods": [],
            "resourceSlices": slices,
            "deviceClasses": [{"metadata": {"name": "any"}, "spec": {}}],
            "claims": claims,
            "probe": {
                "metadata": {"name": "pod", "namespace": "team-a", "uid": "pod"},
                "spec": {"containers": [{"name": "c"}], "resourceClaims": refs},
            },
        }
    )


def _said(world: DeviceWorld) -> str:
    """Return why the node `n` has nothing, or ""."""
    nodes = world.cluster().nodes
    return next(
        (
            rejection.reason
            for rejection, hit in counted_rejections(world.pod_class, nodes, NO_FLAVOR, DEFAULT_PROFILE)
            if hit[nodes.rows["n"]]
        ),
        "",
    )


def _given(world: DeviceWorld) -> list[str]:
    """Return what the claims get on the node `n`."""
    nodes = world.cluster().nodes
    with Transaction(nodes) as transaction:
        assert transaction.allot(world.pod_class, nodes.rows["n"])
        found = allotments(nodes, world.pod_class, "n")
    return [f"{one.pool[1]}/{one.device.name}" for claim in found for one in claim.devices]


SHARED = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
WAITS = {"bindingConditions": ["attached"], "bindingFailureConditions": ["failed"]}
TAKEN = _claim(9, _some(), status=_allocated(f"{DRIVER}/p/a", "r", shareID="s", consumedCapacity={"memory": "10Gi"}))
TAKEN["metadata"]["namespace"] = "team-b"
TAKEN_WHOLE = _claim(8, _some(), status=_allocated(f"{DRIVER}/p/a", "r"))
TAKEN_WHOLE["metadata"]["namespace"] = "team-b"
MANY = [{"name": f"d{at:02}"} for at in range(40)]


@pytest.mark.parametrize(
    ("slices", "claims", "said"),
    [
        pytest.param(  # pools_incubating.go: len(allSlicesForPool) == ResourceSliceCount
            [_slice("s1", {"name": "a"}), _slice("s2", {"name": "b"})],
            [_claim(0, _some())],
            "cannot allocate all claims",
            id="a pool of more slices than it says is not complete",
        ),
        pytest.param(
            [_slice("s1", {"name": "a"}), _slice("s2", {"name": "b"})],
            [_claim(0, _all())],
            f"claim c0, request r: asks for all devices, but resource pool {DRIVER}/p is currently being updated",
            id="nor can all devices be had of one",
        ),
        pytest.param(  # allocator_incubating.go: requests of all claims are looked at before the search
            [_slice("s1", {"name": "a"})],
            [_claim(0, _all("false")), _claim(1, _all(f'device.attributes["{DRIVER}"].x == 1'))],
            "claim c1: selector #0: CEL runtime error: no such key: x",
            id="what cannot be told of a claim is told though an earlier one finds nothing",
        ),
        pytest.param(  # allocator_incubating.go, allocateOne: that there are none is seen when it is their turn
            [_slice("s1", {"name": "a"})],
            [
                _claim(
                    0,
                    _some(selectors=[{"cel": {"expression": f'device.attributes["{DRIVER}"].x == 1'}}]),
                    _all("false"),
                )
            ],
            "claim c0: selector #0: CEL runtime error: no such key: x",
            id="what cannot be told of a request is told though a later one finds nothing",
        ),
        pytest.param(
            [_slice("s1", {"name": "a"})],
            [
                _claim(
                    0,
                    _all("false"),
                    _some(selectors=[{"cel": {"expression": f'device.attributes["{DRIVER}"].x == 1'}}]),
                )
            ],
            "cannot allocate all claims",
            id="nobody looks at what comes after a request that finds nothing",
        ),
        pytest.param(
            [_slice("s1", {"name": "a"}), _slice("s2", {"name": "b"}, {"name": "b"}, pool="q")],
            [_claim(0, {"name": "r", "firstAvailable": [_sub("s0"), _sub("s1", allocationMode="All")]})],
            f"claim c0, request s1: asks for all devices, but resource pool {DRIVER}/q is currently invalid",
            id="one way of several is called by its own name",
        ),
        pytest.param(
            [_slice("s1", {"name": "a", "attributes": {"x": {"int": 1}}}, {"name": "b"})],
            [
                _claim(
                    0,
                    {"name": "r", "firstAvailable": [_sub("s0", allocationMode="All")]},
                    devices={"constraints": [{"matchAttribute": f"{DRIVER}/x"}]},
                )
            ],
            f"claim c0, request s0: cannot add device {DRIVER}/p/b because a claim constraint would not be satisfied",
            id="and so it is where a constraint keeps all devices from being had",
        ),
        pytest.param(  # CmpRequestOverCapacity, with what others have
            [_slice("s1", {"name": "a", **SHARED})],
            [TAKEN, _claim(0, _all())],
            "cannot allocate all claims",
            id="all devices are none where nothing is left of the only one",
        ),
        pytest.param(  # allocator_incubating.go: AllocationResultsMaxSize, before the search
            [_slice("s1", *MANY)],
            [_claim(0, _some(20), {**_some(13), "name": "s"})],
            "claim c0: number of requested devices 33 exceeds the claim limit of 32",
            id="requests of a claim may have 32 devices together",
        ),
        pytest.param(
            [_slice("s1", *MANY)],
            [_claim(0, _all())],
            "claim c0: number of requested devices 40 exceeds the claim limit of 32",
            id="and that may be too few for all there are",
        ),
        pytest.param(  # allocator_incubating.go: allocatingDeviceForAnyClaim
            [_slice("s1", {"name": "a"})],
            [_claim(0, _some(2, adminAccess=True))],
            "cannot allocate all claims",
            id="who only looks does not look at one device twice",
        ),
    ],
)
def test_why_a_node_has_nothing(slices, claims, said):
    assert _said(_world(slices, claims)) == said


@pytest.mark.parametrize(
    ("slices", "claims", "given"),
    [
        pytest.param(  # poolHasBindingConditions looks at all devices of the slices that the node can use
            [
                _slice(
                    "s1",
                    {"name": "a", "allNodes": True},
                    {"name": "b", "nodeName": "m", **WAITS},
                    pool="p",
                    perDeviceNodeSelection=True,
                ),
                _slice("s2", {"name": "c"}, pool="q"),
            ],
            [_claim(0, _some())],
            ["q/c"],
            id="a pool comes last where a device of another node in the same slice has to get ready",
        ),
        pytest.param(
            [_slice("s1", {"name": "a", **SHARED}, {"name": "b"})],
            [TAKEN, _claim(0, _all())],
            ["p/b"],
            id="all devices are those of which enough is left",
        ),
        pytest.param(
            [_slice("s1", {"name": "a", **SHARED}, {"name": "b"})],
            [_claim(0, _all())],
            ["p/a", "p/b"],
            id="which may be all there are",
        ),
        pytest.param(  # allocator_incubating.go, allocateOne: AllocationResultsMaxSize
            [_slice("s1", *MANY)],
            [_claim(0, _some(20), {"name": "s", "firstAvailable": [_sub("s0", count=13), _sub("s1", count=12)]})],
            [f"p/{one['name']}" for one in MANY[:32]],
            id="a way with which a claim would have more than 32 devices is passed by",
        ),
        pytest.param(  # allocator_incubating.go: adminAccess is asked before deviceInUse
            [_slice("s1", {"name": "a"})],
            [TAKEN_WHOLE, _claim(0, _some(adminAccess=True))],
            ["p/a"],
            id="who only looks at a device may do so while another has it",
        ),
        pytest.param(
            [_slice("s1", {"name": "a"}, {"name": "b"})],
            [_claim(0, _some(adminAccess=True), {**_some(adminAccess=True), "name": "s"})],
            ["p/a", "p/b"],
            id="requests of a claim that only look do so at different devices",
        ),
        pytest.param(  # allocator_incubating.go, allocateDevice: allocatingDevices has none that several may have
            [_slice("s1", {"name": "a", "allowMultipleAllocations": True})],
            [_claim(0, _some(adminAccess=True), {**_some(adminAccess=True), "name": "s"})],
            ["p/a", "p/a"],
            id="but at one that several may have they do so together",
        ),
    ],
)
def test_which_devices_are_given(slices, claims, given):
    world = _world(slices, claims)

    assert _said(world) == ""
    assert _given(world) == given


def _on(*expressions: Raw, fields: tuple[Raw, ...] = ()) -> Raw:
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    return {"nodeSelector": {"nodeSelectorTerms": [term]}}


NO_X = {"key": "x", "operator": "DoesNotExist"}
NO_Y = {"key": "y", "operator": "DoesNotExist"}
ONE = {"key": "metadata.name", "operator": "In", "values": ["n"]}
BOTH = {"key": "metadata.name", "operator": "In", "values": ["n", "m"]}
ALL_NODES = {"allNodes": True}


@pytest.mark.parametrize(
    ("first", "second", "device", "where"),
    [
        (ALL_NODES, ALL_NODES, {}, None),
        (_on(NO_X), ALL_NODES, {}, _on(NO_X)),
        (_on(NO_X), _on(NO_Y, NO_X), {}, _on(NO_X, NO_Y)),
        (_on(NO_X), _on(fields=(BOTH,)), {}, _on(NO_X, fields=(BOTH,))),
        (ALL_NODES, _on(fields=(BOTH,)), {}, _on(fields=(BOTH,))),
        (_on(NO_X), {"nodeName": "n"}, {}, _on(fields=(ONE,))),
        (ALL_NODES, _on(NO_X), {"bindsToNode": True}, _on(fields=(ONE,))),
    ],
    ids=[
        "everywhere",
        "by one",
        "by both",
        "by labels and names",
        "by names",
        "on the node of one",
        "where it is used",
    ],
)
def test_a_claim_can_be_used_where_all_its_devices_can(first, second, device, where):
    """allocator_incubating.go, createNodeSelector."""
    slices = [_slice("s1", {"name": "a", **device}, pool="p", **first), _slice("s2", {"name": "b"}, pool="q", **second)]
    world = _world(slices, [_claim(0, _some(2))])
    nodes = world.cluster().nodes
    with Transaction(nodes) as transaction:
        assert transaction.allot(world.pod_class, nodes.rows["n"])
        (found,) = allotments(nodes, world.pod_class, "n")

    said = None if where is None else msgspec.convert(where["nodeSelector"], NodeSelector)
    assert found.selector == said


def test_a_pod_whose_claims_all_have_devices_finds_all_nodes_alike():
    """dynamicresources.go, Score: there are allocations of a node only where the allocator was asked."""
    request = {"name": "r", "firstAvailable": [_sub("s0"), _sub("s1")]}
    has = _claim(0, request, status=_allocated(f"{DRIVER}/p/a", "r/s1"))
    slices = [_slice("s1", {"name": "a"}, {"name": "b"}, allNodes=True)]

    def points(*claims: Raw) -> list[int]:
        world = _world(slices, list(claims))
        scores: list[int] = DynamicResources().points(world.pod_class, world.cluster().nodes).tolist()
        return scores

    assert points(has) == [0, 0]
    assert points(has, _claim(1, request)) == [7 + 8, 7 + 8]
