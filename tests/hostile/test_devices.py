"""What stands in slices, classes, claims and rules is not only read here but used: by pods that ask for such devices.

Beside them an honest pod with a claim on an honest driver's device has to get it, now and after a restart.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from tests.engine.devices import asks_for, decoded, device_class, resource_slice
from tests.engine.world import World
from tests.hostile.cases import Case, sweep
from tests.hostile.kinds import targets
from tests.hostile.other_projects import DEVICES
from tests.hostile.target import NAMESPACE
from tests.hostile.ward import HONEST, HarmError, Ward, treat
from tutti.api.devices import EXTENDED_CLAIM, ResourceClaim
from tutti.api.selectors import Toleration
from tutti.cluster.devices import programs, search_time
from tutti.cluster.devices.offers import Verdict
from tutti.cluster.devices.search import search
from tutti.engine.records.device_observations import DeviceClaimSeen, DeviceClassSeen
from tutti.engine.records.observations import AnyObservation
from tutti.kube.store import Deletion

HONEST_DRIVER = "honest.example.com"
MOST, AT_ONCE = 400, 50
USERS = (
    asks_for(1),
    asks_for(1, match="gpu.example.com/index"),
    asks_for(1, selectors=[{"cel": {"expression": "device.attributes['gpu.example.com'].index >= 0"}}]),
    asks_for(1, capacity={"requests": {"memory": "1Gi"}}),
    {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}]}},
)
"""What is asked for of whatever is published."""


class DeviceWard(Ward):
    """A ward in which pods ask for hostile devices, by hostile classes and claims.

    Attributes:
        served: Which of `USERS` have got devices of single slices, and how often.
    """

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count(1)
        self._users: list[tuple[str, str]] = []
        self._shown: Case | None = None
        self.served: Counter[int] = Counter()
        self.devices.put(
            device_class("gpu", "device.driver != 'honest.example.com'"),
            device_class("honest", f"device.driver == '{HONEST_DRIVER}'"),
            resource_slice(HONEST, 2, driver=HONEST_DRIVER),
        )

    def show(self, case: Case, change: str = "ADDED") -> None:
        """Have an object seen; a slice by itself, so that nothing is wrong with its pool but what is wrong with it."""
        if case.target.kind == "ResourceSlice":
            if self._shown is not None:
                super().show(self._shown, "DELETED")
            self._shown = case
        super().show(case, change)
        if case.target.kind == "ResourceSlice":
            self._ask_each()

    def _believe(self, change: Any, observation: AnyObservation) -> None:
        super()._believe(change, observation)
        match observation:
            case DeviceClaimSeen():
                self.devices.objects["ResourceClaim", change.key.name] = change.obj
                self._use(change.key.name)
            case DeviceClassSeen():
                self._ask(asks_for(1, name=change.key.name))

    def _forget(self, name: str, gone: Deletion) -> None:
        self.devices.objects.pop((name.partition(".")[0], gone.key.name), None)
        super()._forget(name, gone)

    def _ask_each(self) -> None:
        """One who asks after the other, so that each finds everything free."""
        for at, spec in enumerate(USERS):
            claim = self._ask(spec)
            self.run()
            self.served[at] += self.devices.claim(claim).status.allocation is not None
            namespace, name = self._users.pop()
            self.delete(name, namespace=namespace)
            self.devices.drop("ResourceClaim", claim)

    def _ask(self, spec: Any) -> str:
        """A pod with a claim of its own; returns the name of that."""
        name = f"asks-{next(self._numbers)}"
        meta = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
        self.devices.put(decoded({"metadata": meta, "spec": spec}, ResourceClaim))
        self._use(name)
        return name

    def _use(self, claim: str) -> None:
        """A pod that uses a claim."""
        name = f"user-{next(self._numbers)}"
        self.pod(name, namespace=NAMESPACE, gpus=0, cpu="1m", memory="1Mi", device_claims=(claim,))
        self._users.append((NAMESPACE, name))

    def check(self) -> None:
        for spec in USERS:
            self._ask(spec)
        super().check()

    def _place(self) -> None:
        name = f"device-{next(self._numbers)}"
        self.devices.make_claim(name, asks_for(1, name="honest", tolerations=[{"operator": "Exists"}]))
        self.pod(name, gpus=0, device_claims=(name,), tolerations=[Toleration(key=HONEST, operator="Exists")])
        super()._place()
        if self.where(name) != {name: HONEST}:
            raise HarmError(f"{name} is not placed: {self.why('Pod', name)}")
        self.delete(name)
        self.devices.drop("ResourceClaim", name)

    def leave(self) -> None:
        for namespace, name in self._users:
            self.delete(name, namespace=namespace)
        self._users.clear()
        for kind, name in [one for one in self.devices.objects if one[1].startswith("asks-")]:
            self.devices.drop(kind, name)
        self._shown = None
        super().leave()


@pytest.mark.parametrize("kind", sorted(DEVICES))
def test_who_uses_devices_gets_them_whatever_is_in_any_field_of(kind: str) -> None:
    (target,) = (one for one in targets() if one.kind == kind)
    cases = list(sweep(2, seed=3, kinds=(target,)))
    cases = random.Random(3).sample(cases, min(MOST, len(cases)))
    ward = DeviceWard()
    for at in range(0, len(cases), AT_ONCE):
        treat(ward, cases[at : at + AT_ONCE])
    if kind == "ResourceSlice":
        assert min(ward.served[at] for at in range(len(USERS))) > len(cases) / 4


def test_who_writes_selectors_that_take_long_to_compile_is_told_and_nobody_waits_for_that() -> None:
    """A claim has room for a hundred of the longest, each of which takes a fraction of a second."""
    ward = DeviceWard()
    of_number = "device.driver != 'x' && " * 400
    selectors = [{"cel": {"expression": f"{of_number}'{number}' != ''"}} for number in range(30)]
    ward.devices.make_claim("long", asks_for(1, name="honest", selectors=selectors))
    ward.pod("long", gpus=0, device_claims=("long",))
    ward.check()

    length = sum(len(one["cel"]["expression"]) for one in selectors)
    told = f"its selectors have {length} characters together, and 16384 is the most that is weighed"
    assert told in ward.why("Pod", "long").message


@pytest.mark.parametrize("apart", ["index", "uuid"])
def test_a_claim_that_is_searched_long_is_not_searched_again_for_each_thing_that_it_could_leave_out(monkeypatch, apart):
    """Nine devices that differ in what only eight have: each selector left out on trial took as long once more."""
    steps = Counter[str]()

    def counted(claims: Any, offer: Any, selects: Any, most: int, **how: Any) -> Verdict:
        found = search(claims, offer, selects, most, **how)
        steps["all"] += found.steps
        return found

    monkeypatch.setattr(programs, "search", counted)
    world = World()
    world.devices.put(device_class(), resource_slice("n0"))
    world.node("n0", gpus=0)
    name = f"device.attributes['gpu.example.com'].{apart}"
    ways = [
        {"name": f"w{at}", "deviceClassName": "gpu", "selectors": [{"cel": {"expression": f"{name} != {said}"}}]}
        for at, said in enumerate((20, 30, 40, 50) if apart == "index" else ("'a'", "'b'", "'c'", "'d'"))
    ]
    requests = [{"name": f"r{at}", "firstAvailable": ways} for at in range(9)]
    constraints = [{"distinctAttribute": "gpu.example.com/index"}]
    world.devices.make_claim("theirs", {"devices": {"requests": requests, "constraints": constraints}})
    world.pod("theirs", gpus=0, device_claims=("theirs",))
    world.devices.make_claim("honest", asks_for(2))
    world.pod("honest", gpus=0, device_claims=("honest",))
    world.run()

    assert set(world.where()) == {"honest"}
    assert world.why("Pod", "theirs").message
    tries = 2  # by itself, and beside what the honest pod has got
    assert steps["all"] <= tries * (search_time.MOST_STEPS + search_time.FREE_STEPS) + 100


def world_of(free: int) -> World:
    """A node with two devices, so many of them free."""
    world = World()
    world.devices.put(device_class("gpu", extendedResourceName="example.com/gpu"), resource_slice("n0", 2))
    world.node("n0", gpus=0)
    for number in range(2 - free):
        world.devices.make_claim(f"mine-{number}", asks_for(1))
        world.pod(f"mine-{number}", gpus=0, device_claims=(f"mine-{number}",))
    world.run()
    return world


@pytest.mark.parametrize("namespace", ["theirs", "default"])
def test_a_claim_that_is_said_to_be_made_for_a_pod_of_another_namespace_keeps_nobody_waiting(namespace: str) -> None:
    """Whoever may make claims may write whose they are, also by a uid that he has seen elsewhere."""
    world = world_of(free=2)
    asked = world.pod("p", gpus=0, extended={"example.com/gpu": "1"})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": asked.metadata.uid, "controller": True}
    meta: dict[str, Any] = {"name": "trap", "namespace": namespace, "uid": "trap", "ownerReferences": [owner]}
    meta["annotations"] = {EXTENDED_CLAIM: "true"}
    world.tell(DeviceClaimSeen(decoded({"metadata": meta, "spec": asks_for(1)}, ResourceClaim)))
    world.put(msgspec.structs.replace(asked, metadata=msgspec.structs.replace(asked.metadata, labels={"a": "b"})))
    world.until(60)

    assert (world.where() == {"p": "n0"}) == (namespace == "theirs")


def test_who_writes_his_claims_over_and_over_has_nobody_else_tried_again() -> None:
    """What a tenant writes on his claims frees nothing; only with another status is something else had."""
    world = world_of(free=0)
    for number in range(20):
        world.devices.make_claim(f"waits-{number}", asks_for(1))
        world.pod(f"waits-{number}", gpus=0, device_claims=(f"waits-{number}",))
    world.until(60)
    tried = world.engine.evaluated
    for number in range(50):
        world.devices.make_claim(f"new-{number}", asks_for(1))
        claim = world.devices.claim("mine-0")
        meta = msgspec.structs.replace(claim.metadata, annotations={"written": str(number)})
        world.devices.put(msgspec.structs.replace(claim, metadata=meta))
        world.run()
        world.devices.drop("ResourceClaim", f"new-{number}")
    world.run()
    assert world.engine.evaluated == tried
    world.delete("mine-0")
    world.devices.free("mine-0")
    world.until(60)
    assert len(world.where("waits-")) == 1


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("12 / (device.attributes['gpu.example.com'].index - 1) != 0", "division by zero"),
        ("device.attributes['gpu.example.com'].index != 1 || device.attributes['gpu.example.com'].none", "no such key"),
        (
            "device.attributes['gpu.example.com'].index != 1 || device.driver.matches(device.driver + '[')",
            "error parsing regexp",
        ),
        ("lists.range(2000).map(x, x + device.attributes['gpu.example.com'].index).size() < 0", "0/1 nodes are"),
    ],
)
def test_an_expression_that_raises_about_some_devices_or_is_long_is_told_to_its_pods_alone(
    expression: str, told: str
) -> None:
    world = world_of(free=2)
    selectors = [{"cel": {"expression": expression}}]
    for number in range(3):
        world.devices.make_claim(f"theirs-{number}", asks_for(2, selectors=selectors))
        world.pod(f"theirs-{number}", gpus=0, device_claims=(f"theirs-{number}",))
    world.devices.make_claim("honest", asks_for(2))
    world.pod("honest", gpus=0, device_claims=("honest",))
    world.until(60)

    assert world.where() == {"honest": "n0"}
    assert told in world.why("Pod", "theirs-0").message
    assert not world.replay().differences
