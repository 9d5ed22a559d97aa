"""A claim of a PodGroup of Kubernetes (KEP-5729) is given its devices once for all pods of the group, and is the group's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.devices import DRIVER, asks_for, decoded, device_class, resource_slice
from tests.engine.gangs_with_devices import gang as plain_gang
from tests.engine.gangs_with_devices import replays, with_devices
from tests.engine.stories.test_native_groups import NATIVE
from tests.engine.world import World, replaced
from tutti.api.core import OwnerReference, PodClaimStatus, PodResourceClaim, SchedulingGroup
from tutti.api.devices import ResourceSlice
from tutti.engine.records.decisions import Evict, WriteDeviceClaim
from tutti.engine.records.device_observations import DeviceClaimSeen


def group(world: World, name: str = "g", *, least: int = 3, template: str = "", claim: str = "") -> str:
    """A PodGroup that lists one claim as its own; returns its uid."""
    source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    policy = {"gang": {"minCount": least}} if least else {"basic": {}}
    world.gang_object(NATIVE, name, {"schedulingPolicy": policy, "resourceClaims": [{"name": "shared", **source}]})
    uid: str = world.gang_objects[NATIVE, "PodGroup", "default", name]["metadata"]["uid"]
    return uid


def member(
    world: World, name: str, *, of: str = "g", template: str = "", claim: str = "", called: str = "shared", **asks: Any
) -> None:
    """A pod of a PodGroup that names a claim, or the template from which the group's was made."""
    pod = world.pod(name, **{"gpus": 0, **asks})
    entry = PodResourceClaim(called, None if template else claim, template or None)
    spec = replaced(pod.spec, scheduling_group=SchedulingGroup(of), resource_claims=[entry])
    status = replaced(pod.status, resource_claim_statuses=[PodClaimStatus(called, claim)] if template else [])
    world.put(replaced(pod, spec=spec, status=status))


def made(world: World, name: str, uid: str, *, of: str = "g", count: int = 2) -> None:
    """The claim that the claim controller makes from a template for a PodGroup."""
    world.devices.make_claim(name, asks_for(count))
    claim = world.devices.claim(name)
    owner = OwnerReference(NATIVE, "PodGroup", of, uid, controller=True)
    world.devices.put(replaced(claim, metadata=replaced(claim.metadata, owner_references=[owner])))


def network(name: str, **where: Any) -> ResourceSlice:
    """One device that several nodes can use."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "devices": [{"name": "channel"}], **where}
    found: ResourceSlice = decoded({"metadata": {"name": name}, "spec": spec}, ResourceSlice)
    return found


def users(world: World, claim: str) -> list[tuple[str, str]]:
    return [(one.resource, one.name) for one in world.devices.claim(claim).status.reserved_for]


def evicted(world: World) -> list[str]:
    return sorted(one.name for one in world.log if isinstance(one, Evict))


@pytest.mark.parametrize("source", ["template", "claim"])
def test_the_claim_of_a_group_is_reserved_for_the_group_once(source):
    world = with_devices()
    template = "two" if source == "template" else ""
    uid = group(world, template=template, claim="g-shared")
    made(world, "g-shared", uid)
    for rank in range(3):
        member(world, f"g-{rank}", template=template, claim="g-shared")
    world.run()

    assert len(world.where()) == 3
    assert len(set(world.where().values())) == 1
    assert users(world, "g-shared") == [("podgroups", "g")]
    assert world.devices.claim("g-shared").status.reserved_for[0].uid == uid
    assert len([one for one in world.devices.written if one.name == "g-shared"]) == 1
    assert replays(world)


def test_a_group_of_more_members_than_a_claim_can_name_starts():
    """As pods of their own only 256 could use one claim."""
    world = World()
    world.devices.put(device_class(), network("everywhere", allNodes=True))
    for at in range(4):
        world.node(f"n{at}", gpus=0, cpu="100")
    uid = group(world, least=300, template="one")
    made(world, "g-shared", uid, count=1)
    for rank in range(300):
        member(world, f"g-{rank}", template="one", claim="g-shared", memory="1Mi")
    world.run()

    assert len(world.where()) == 300
    assert users(world, "g-shared") == [("podgroups", "g")]


def test_an_entry_that_the_group_does_not_list_is_the_pods_own():
    """Kubernetes 1.36, BindTo: name and source have to be the same."""
    world = with_devices()
    group(world, least=2, claim="ours")
    world.devices.make_claim("ours", asks_for(2))
    for rank in range(2):
        member(world, f"g-{rank}", claim="ours", called="other")
    world.run()

    assert len(world.where()) == 2
    assert users(world, "ours") == [("pods", "g-0"), ("pods", "g-1")]


def test_the_group_may_come_after_its_pods_and_the_claim_after_both():
    world = with_devices()
    for rank in range(3):
        member(world, f"g-{rank}", template="two", claim="g-shared")
    world.run()
    uid = group(world, template="two")
    world.run()
    assert world.where() == {}
    made(world, "g-shared", uid)
    world.run()

    assert len(world.where()) == 3
    assert users(world, "g-shared") == [("podgroups", "g")]


def test_pods_that_wait_for_a_claim_of_nobody_go_when_their_group_is_seen_to_list_it():
    world = with_devices()
    world.gang_object(NATIVE, "g", {"schedulingPolicy": {"gang": {"minCount": 3}}})
    uid = world.gang_objects[NATIVE, "PodGroup", "default", "g"]["metadata"]["uid"]
    for rank in range(3):
        member(world, f"g-{rank}", template="two", claim="g-shared")
    made(world, "g-shared", uid)
    world.run()
    assert world.where() == {}

    assert group(world, template="two") == uid
    world.run()

    assert len(world.where()) == 3
    assert users(world, "g-shared") == [("podgroups", "g")]


def test_pods_that_are_gone_are_no_members_of_their_group_any_more():
    world = with_devices()
    for rank in range(2):
        member(world, f"g-{rank}", template="two", claim="g-shared")
    world.run()
    groups = world.engine.state.cluster.nodes.devices.book.groups
    assert set(groups.members(("default", "g"))) == {("default", "g-0"), ("default", "g-1")}

    world.delete("g-0")
    world.run()
    assert set(groups.members(("default", "g"))) == {("default", "g-1")}


def test_a_claim_that_was_made_for_neither_is_refused_in_kube_schedulers_words():
    world = with_devices()
    group(world, least=1, template="two")
    made(world, "g-shared", "somebody-else")
    member(world, "g-0", template="two", claim="g-shared")
    world.run()

    assert world.where() == {}
    said = world.why("PodGroup", "g").message
    assert (
        "ResourceClaim default/g-shared was not created for Pod default/g-0 (neither Pod nor PodGroup g is the owner)"
        in said
    )


def test_members_that_come_later_use_what_the_group_has():
    world = with_devices()
    uid = group(world, least=1, template="two")
    made(world, "g-shared", uid)
    for rank in range(3):
        member(world, f"g-{rank}", template="two", claim="g-shared")
        world.run()
        assert f"g-{rank}" in world.where()

    assert len(set(world.where().values())) == 1
    assert users(world, "g-shared") == [("podgroups", "g")]
    assert len(world.devices.written) == 1
    assert replays(world)


def test_all_members_find_room_where_the_groups_devices_are():
    """kube-scheduler allocates for the first pod alone, and pins the others to its node."""
    world = World()
    world.devices.put(device_class())
    for name, cpu in (("n0", "2"), ("n1", "2"), ("n2", "8"), ("n3", "2")):
        world.node(name, gpus=0, cpu=cpu)
        world.devices.put(resource_slice(name))
    uid = group(world, least=4, template="two")
    made(world, "g-shared", uid)
    for rank in range(4):
        member(world, f"g-{rank}", template="two", claim="g-shared")
    world.run()

    assert set(world.where().values()) == {"n2"}
    assert len(world.where()) == 4


def test_devices_of_a_network_are_chosen_where_all_members_fit():
    world = World()
    world.devices.put(device_class())
    for rack in range(3):
        for at in range(2):
            world.node(f"r{rack}-{at}", gpus=0, cpu="4" if rack == 2 else "1", labels={"rack": f"r{rack}"})
        terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": [f"r{rack}"]}]}]
        world.devices.put(network(f"rack-{rack}", nodeSelector={"nodeSelectorTerms": terms}))
    uid = group(world, least=6, template="one")
    made(world, "g-shared", uid, count=1)
    for rank in range(6):
        member(world, f"g-{rank}", template="one", claim="g-shared")
    world.run()

    assert set(world.where().values()) == {"r2-0", "r2-1"}
    assert world.devices.results("g-shared") == ["rack-2/channel"]


def test_a_group_that_lacks_devices_waits_and_writes_nothing():
    world = with_devices(nodes=1, count=1)
    uid = group(world, template="two")
    made(world, "g-shared", uid)
    for rank in range(3):
        member(world, f"g-{rank}", template="two", claim="g-shared")
    world.run()

    assert world.where() == {}
    assert world.devices.written == []


@pytest.mark.parametrize("backwards", [False, True])
def test_an_operator_that_died_between_claim_and_bind_goes_on_with_what_the_group_has(backwards):
    world = with_devices()
    world.hold_binds = True
    uid = group(world, template="two")
    made(world, "g-shared", uid)
    for rank in range(3):
        member(world, f"g-{rank}", template="two", claim="g-shared")
    world.run()
    before = world.devices.results("g-shared")
    assert before

    world.hold_binds = False
    world.restart(backwards=backwards)
    world.run()

    assert len(world.where()) == 3
    assert world.devices.results("g-shared") == before
    assert users(world, "g-shared") == [("podgroups", "g")]


def test_a_group_that_died_with_its_devices_and_fits_nowhere_with_them_gives_them_back():
    """kube-scheduler 1.36, unreservePodGroupClaims: none of the group's pods is scheduled."""
    world = with_devices(nodes=2)
    world.hold_binds = True
    uid = group(world, template="two")
    made(world, "g-shared", uid)
    for rank in range(3):
        member(world, f"g-{rank}", template="two", claim="g-shared")
    world.run()
    at = world.devices.results("g-shared")[0].partition("/")[0]
    world.hold_binds = False
    world.node(at, gpus=0, cpu="1")
    world.restart()
    world.until(60)

    assert set(world.where().values()) == {"n0", "n1"} - {at}
    assert len(world.where()) == 3
    assert users(world, "g-shared") == [("podgroups", "g")]


def test_a_reservation_that_is_given_back_takes_the_group_off_its_claim():
    world = with_devices()
    world.devices.held = True
    uid = group(world, least=2, template="two")
    made(world, "g-shared", uid)
    world.devices.make_claim("own", asks_for(1))
    world.devices.conflicts.add("own")
    for rank in range(2):
        member(world, f"g-{rank}", template="two", claim="g-shared")
    pod = world.pods["default", "g-1"]
    spec = replaced(pod.spec, resource_claims=[*pod.spec.resource_claims, PodResourceClaim("mine", "own")])
    world.put(replaced(pod, spec=spec))
    world.run()
    world.devices.held = False
    world.devices.write()
    world.until(1)

    assert world.where() == {}
    assert users(world, "g-shared") == []
    assert world.devices.results("g-shared") == []
    world.devices.conflicts.clear()
    world.until(120)
    assert len(world.where()) == 2
    assert len(world.devices.taken()) == 3


def test_a_gang_of_higher_priority_gets_the_devices_of_a_groups_claim():
    """The group exists on, and would keep them: who takes the gang out takes its devices away with the last pod."""
    world = with_devices(nodes=1, count=4)
    uid = group(world, "low", least=2, template="two")
    made(world, "low-shared", uid, of="low", count=4)
    for rank in range(2):
        member(world, f"low-{rank}", of="low", template="two", claim="low-shared")
    world.run()
    assert len(world.where()) == 2

    world.devices.make_claim("high", asks_for(4))
    world.pod("high", gpus=0, device_claims=("high",), priority=10)
    world.run()
    assert evicted(world) == ["low-0", "low-1"]
    for rank in range(2):
        member(world, f"again-{rank}", of="low", template="two", claim="low-shared")
    world.until(60)

    assert set(world.where()) == {"high"}
    assert world.devices.results("high") == [f"n0/gpu-{i}" for i in range(4)]
    assert users(world, "low-shared") == []
    assert evicted(world) == ["low-0", "low-1"]
    assert replays(world)

    world.delete("high")
    world.devices.free("high")
    world.until(60)
    assert set(world.where()) == {"again-0", "again-1"}
    assert users(world, "low-shared") == [("podgroups", "low")]


def test_the_devices_of_a_group_stay_while_its_pods_are_made_anew():
    world = with_devices()
    uid = group(world, least=2, template="two")
    made(world, "g-shared", uid)
    for rank in range(2):
        member(world, f"g-{rank}", template="two", claim="g-shared")
    world.run()
    before = world.devices.results("g-shared")
    world.delete("g-0", "g-1")
    world.run()
    for rank in range(2):
        member(world, f"g-{rank}", template="two", claim="g-shared")
    world.until(60)

    assert len(world.where()) == 2
    assert world.devices.results("g-shared") == before
    assert [one.change for one in world.devices.written if isinstance(one, WriteDeviceClaim)] == ["allocate"]


def test_devices_are_not_taken_from_a_pod_that_runs_because_another_that_shared_them_could_not_be_bound():
    world = with_devices()
    world.devices.make_claim("ours", asks_for(2))
    for name in ("first", "second"):
        world.pod(name, gpus=0, device_claims=("ours",))
    world.hold_binds = True
    world.run()
    assert len(world.devices.claim("ours").status.reserved_for) == 2
    world.hold_binds = False
    for bind in list(world.pending_binds):
        world.answer(bind, "Bound" if bind.name == "first" else "Failed")
    world.until(60)

    assert set(world.where()) == {"first", "second"}
    assert "free" not in [one.change for one in world.devices.written]
    assert len(world.devices.results("ours")) == 2


def test_a_group_without_claims_of_its_own_changes_nothing():
    world = with_devices()
    plain_gang(world)
    world.gang_object(NATIVE, "g", {"schedulingPolicy": {"gang": {"minCount": 3}}})
    world.run()
    assert len(world.where()) == 3


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ([{"name": f"c{i}", "resourceClaimName": "ours"} for i in range(5)], "length <= 4"),
        ([{"name": 3}], "Expected `str`"),
        ("all", "Expected `array`"),
    ],
)
def test_a_group_whose_claims_cannot_be_read_says_so_and_others_go_on(listed, said):
    world = with_devices()
    world.gang_object(NATIVE, "g", {"schedulingPolicy": {"gang": {"minCount": 1}}, "resourceClaims": listed})
    world.devices.make_claim("ours", asks_for(1))
    member(world, "g-0", claim="ours")
    world.pod("other", gpus=0)
    world.run()

    assert set(world.where()) == {"other"}
    why = world.why("PodGroup", "g")
    assert why.reason == "InvalidGang"
    assert said in why.message


def test_a_claim_that_is_losing_its_devices_is_not_used_though_it_still_seems_to_have_them():
    """The group's uid is that of its next pod as well; what the claim says is from before it was freed."""
    world = with_devices(nodes=1)
    uid = group(world, least=1, template="two", claim="g-shared")
    made(world, "g-shared", uid)
    member(world, "g-0", template="two", claim="g-shared")
    world.run()
    before = world.devices.claim("g-shared")
    assert before.status.allocation is not None
    world.delete("g-0")
    world.node("n0", gpus=0, cpu="10m")
    member(world, "g-1", template="two", claim="g-shared")
    world.until(20)
    freed = world.devices.claim("g-shared")
    assert freed.status.allocation is None

    world.tell(DeviceClaimSeen(before))  # the stream is late
    world.node("n0", gpus=0, cpu="32")
    world.run()
    assert world.where("g-1") == {}

    world.devices.put(freed)
    world.until(90)
    assert list(world.where("g-1")) == ["g-1"]
    assert users(world, "g-shared") == [("podgroups", "g")]


def test_a_claim_keeps_its_devices_while_a_bind_of_its_pod_is_under_way():
    """The node is gone, but the bind may have landed: what was sent cannot be taken back."""
    world = with_devices(nodes=1)
    uid = group(world, least=1, template="two", claim="g-shared")
    made(world, "g-shared", uid)
    world.hold_binds = True
    member(world, "g-0", template="two", claim="g-shared")
    world.run()
    assert world.devices.claim("g-shared").status.allocation is not None

    world.remove_node("n0")
    world.until(20)

    assert "free" not in [one.change for one in world.devices.written]
