"""The simulation is worth what it finds: each of these breakages, made on purpose, shows within a few seeds.

A breakage replaces one real function for the length of a test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import pytest

from tests.simulation.pods import NATIVE
from tests.simulation.run import play
from tests.simulation.scenario import drawn
from tests.simulation.steps import Step
from tests.simulation.stories import LISTED, START, cluster, devices, gang, on, story, with_devices
from tutti.cluster.cluster import Cluster
from tutti.cluster.devices.group_claims import GroupClaims
from tutti.cluster.devices.ledger import DeviceLedger
from tutti.cluster.devices.promises import DevicePromises
from tutti.cluster.pods import PodPhase, PodRecord
from tutti.controller.dispatch import Dispatch
from tutti.engine.cycle.engine import Engine
from tutti.engine.ingest import specs
from tutti.engine.lifecycle import binding, eviction, member_loss, quota_usage, reservation
from tutti.engine.preemption import lower_priority
from tutti.engine.queue.scheduling_queue import SchedulingQueue
from tutti.engine.records import pod_sets
from tutti.engine.records.decisions import DeletePodGroup, WriteDeviceClaim
from tutti.engine.records.observations import DeviceClaimWritten
from tutti.engine.records.queue_entries import PendingQueue
from tutti.engine.records.workloads import Phase
from tutti.kube.device_claims import DeviceClaimWriter
from tutti.kube.lease import Elector
from tutti.kube.statuses import StatusWriter
from tutti.kube.store import Change, Deletion, ObjectStore
from tutti.quota.tree import QuotaNode

SEEDS = 60
"""How many seeds a breakage has to show in; most show in the first."""
Break = Callable[[pytest.MonkeyPatch], None]


def placeable_but(ignored: str, hindered: PodPhase) -> Break:
    """Members count as waiting for a node although something forbids to bind them."""
    doing = PodRecord.doing.fget
    assert doing is not None

    def placeable(record: PodRecord) -> bool:
        hinders = {"node", "assumed", "gated", "deleting", "terminated"} - {ignored}
        return not any(getattr(record, one) for one in hinders)

    def counted(record: PodRecord) -> PodPhase:
        found: PodPhase = doing(record)
        return PodPhase.WAITING if found is hindered and placeable(record) else found

    def make(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(PodRecord, "placeable", property(placeable))
        patch.setattr(PodRecord, "doing", property(counted))

    return make


def nothing(owner: Any, name: str) -> Break:
    """A function does nothing."""
    return lambda patch: patch.setattr(owner, name, lambda *_, **__: None)


def always(owner: Any, name: str, value: Any) -> Break:
    """A property or method says the same whatever is."""
    made = property(lambda *_: value) if isinstance(getattr(owner, name), property) else lambda *_, **__: value
    return lambda patch: patch.setattr(owner, name, made)


def one_member_less(patch: pytest.MonkeyPatch) -> None:
    """A gang is satisfied with one member less than it needs."""
    read = specs.read_workload

    def wrongly(state: Any, workload: Any) -> None:
        read(state, workload)
        for group in workload.groups.values():
            group.min_count = max(1, group.min_count - 1)

    patch.setattr(specs, "read_workload", wrongly)


def quota_is_never_given_back(patch: pytest.MonkeyPatch) -> None:
    """What has ended goes on using quota."""

    def keep(state: Any, workload: Any) -> None:
        for member in workload.members():
            if member.charge is None and member.pod.node and not member.pod.terminated:
                member.charge = quota_usage.found_charge(state, workload, member)
                if member.charge is not None:
                    state.charge(member.charge)

    patch.setattr(quota_usage, "update_charges", keep)


def one_gpu_more(patch: pytest.MonkeyPatch) -> None:
    """Every queue has one more of everything than it has."""
    available = QuotaNode.available
    patch.setattr(QuotaNode, "available", lambda node, what: available(node, what) + 1)


def bound_pods_take_no_room(patch: pytest.MonkeyPatch) -> None:
    """Only what is reserved takes room; what is bound takes none."""
    charge = Cluster._charge

    def wrongly(cluster: Any, row: int, record: PodRecord, sign: int) -> None:
        if not record.node:
            charge(cluster, row, record, sign)

    patch.setattr(Cluster, "_charge", wrongly)


def deletions_go_unseen(patch: pytest.MonkeyPatch) -> None:
    """Nothing is said of what is gone."""
    hand_over = ObjectStore._hand_over

    def wrongly(mirror: Any, changes: Sequence[Change[Any]]) -> None:
        hand_over(mirror, [one for one in changes if not isinstance(one, Deletion)])

    patch.setattr(ObjectStore, "_hand_over", wrongly)


def sends_twice(patch: pytest.MonkeyPatch) -> None:
    """A member that is on its way is sent once more."""
    send = binding.send_binds

    def wrongly(state: Any, workload: Any) -> None:
        for member in workload.members():
            member.sent = False
        send(state, workload)

    patch.setattr(binding, "send_binds", wrongly)


def pod_groups_are_not_deleted(patch: pytest.MonkeyPatch) -> None:
    """A PodGroup that is to be deleted stays."""
    change = Dispatch._change

    async def wrongly(self: Dispatch, wanted: Any) -> None:
        if not isinstance(wanted, DeletePodGroup):
            await change(self, wanted)

    patch.setattr(Dispatch, "_change", wrongly)


def what_vanished_unwatched_is_not_missed(patch: pytest.MonkeyPatch) -> None:
    """What was known and is not in a new list is not said to be gone."""

    def wrongly(mirror: Any, version: str) -> None:
        mirror._listed, mirror.version = None, version

    patch.setattr(ObjectStore, "end_list", wrongly)


def successors_come_one_by_one(patch: pytest.MonkeyPatch) -> None:
    """What a degraded gang lacks is placed as it comes, so that a part of it may hold what it cannot use."""
    missing = pod_sets._missing

    def wrongly(workload: Any, group: Any, tally: Any, waiting: int) -> int:
        return 0 if workload.phase is Phase.SCHEDULED else missing(workload, group, tally, waiting)

    patch.setattr(pod_sets, "_missing", wrongly)


def devices_go_unwritten(patch: pytest.MonkeyPatch) -> None:
    """What a claim is to get is taken for written before it is."""
    patch.setattr(binding, "prepare_devices", lambda *_: {})


def held_devices_are_free(patch: pytest.MonkeyPatch) -> None:
    """What claims say they have is free for others."""
    patch.setattr(DeviceLedger, "take", lambda *_: None)
    patch.setattr(DeviceLedger, "free", lambda *_: None)


def devices_stay_on_claims(patch: pytest.MonkeyPatch) -> None:
    """What a claim is to lose is taken for written, and is not."""
    write = DeviceClaimWriter._write

    async def written(writer: DeviceClaimWriter, decision: WriteDeviceClaim) -> DeviceClaimWritten:
        if decision.change != "free":
            return await write(writer, decision)
        about = (decision.namespace, decision.name, decision.uid, decision.change)
        return DeviceClaimWritten(*about, done=True, version=decision.version)

    patch.setattr(DeviceClaimWriter, "_write", written)


BREAKAGES: dict[str, Break] = {
    "a gated member counts as one that can be bound": placeable_but("gated", PodPhase.GATED),
    "a gang is satisfied with one member less": one_member_less,
    "quota of what has ended is kept": quota_is_never_given_back,
    "queues have one GPU too many": one_gpu_more,
    "what is gone keeps its room": nothing(Cluster, "_uncharge"),
    "bound pods take no room": bound_pods_take_no_room,
    "members are sent twice": sends_twice,
    "a standby remembers what has gone": nothing(Engine, "_forget_gone"),
    "deletions go unseen": deletions_go_unseen,
    "a gang that is bound in part stays so": nothing(binding, "roll_back"),
    "a lease is taken from whoever holds it": always(Elector, "_takeable", True),
    "statuses are not written": nothing(StatusWriter, "put"),
    "groups that were made for pods are not deleted": pod_groups_are_not_deleted,
    "a deleted member counts as one that can be bound": placeable_but("deleting", PodPhase.LEAVING),
    "victims are chosen and not asked to leave": nothing(eviction, "ask_to_leave"),
    "nobody is woken when something is freed": nothing(SchedulingQueue, "_activate"),
    "the head of a strict line is overtaken": always(PendingQueue, "blocked", None),
    "what vanished while nobody watched is not missed": what_vanished_unwatched_is_not_missed,
    "a reservation is held for ever": nothing(reservation, "time_out_members"),
    "members that end on dead nodes count": always(Cluster, "_is_lost", False),
    "nothing is kept for successors": always(member_loss, "kept_from", ()),
    "quota of what was lost is anybody's": always(member_loss, "charge_of_loss", None),
    "a degraded gang is never restarted": nothing(member_loss, "_restart_in_time"),
    "what is taken out waits for members on dead nodes": always(eviction, "_is_there", True),
    "members leave one by one though their gang needs them": always(lower_priority, "leaves_whole", False),
    "successors are placed one by one": successors_come_one_by_one,
    "pods are bound before their claims have devices": devices_go_unwritten,
    "devices that claims have are free": held_devices_are_free,
    "devices that claims lose stay on them": devices_stay_on_claims,
    "who comes to share a claim chooses for himself": nothing(DevicePromises, "_share"),
    "the claim of a group is noted as its pods'": nothing(GroupClaims, "group_of"),
}


SHOWN_IN = {
    "a gated member counts as one that can be bound": 0,
    "a gang is satisfied with one member less": 0,
    "queues have one GPU too many": 0,
    "members are sent twice": 1,
    "a lease is taken from whoever holds it": 0,
    "a reservation is held for ever": 10,
    "groups that were made for pods are not deleted": 1,
    "a deleted member counts as one that can be bound": 1,
    "the head of a strict line is overtaken": 7,
    "what vanished while nobody watched is not missed": 1,
    "members that end on dead nodes count": 5,
    "members leave one by one though their gang needs them": 11,
    "successors are placed one by one": 39,
    "pods are bound before their claims have devices": 15,
    "devices that claims have are free": 8,
}
"""Which seed has shown a breakage: it is played first. Where it shows it no longer, the others are played as well."""

CROWD = [gang(f"rival{i}", 1, at=4.0, how="Pod", gpus=2, seconds=40) for i in range(8)]
LOST = [Step(15.0, "delete_pod", {"name": "life-1"})]
REFUSED = {"what": "pods/binding", "method": "POST", "how": "refuse", "code": 403, "times": 10_000, "name": "life-2"}
URGENT = {
    "group": "scheduling.k8s.io",
    "version": "v1",
    "plural": "priorityclasses",
    "body": {"metadata": {"name": "urgent"}, "value": 100},
}
SLOW_CLAIM = {"what": "resourceclaims/status", "method": "PATCH", "how": "hold", "seconds": 2.0}
SHARED = story(
    cluster(),
    devices(shared="one"),
    with_devices(gang("first", 1, how="Pod", gpus=0, seconds=30), shared="one"),
    with_devices(gang("second", 1, at=START + 0.5, how="Pod", gpus=0, seconds=30), shared="one"),
    [Step(0.0, "trouble", SLOW_CLAIM)],
    heal_at=30,
)
"""Somebody comes to share a claim whose devices are chosen and not written yet."""
TOLD = (
    story(cluster(), gang("life", 3, queue="q1", seconds=60), [Step(0.0, "trouble", REFUSED)], heal_at=150),
    story(
        cluster(),
        devices(),
        with_devices(gang("life", 3, queue="q1", gpus=0, seconds=60)),
        [Step(0.0, "trouble", REFUSED)],
        heal_at=150,
    ),
    story(cluster(), gang("life", 4, gpus=2, seconds=60, slow=200), *CROWD, LOST, heal_at=30),
    story(
        cluster(),
        gang("life", 3, queue="q3", gpus=2, seconds=60, slow=200),
        gang("rival", 1, at=5.0, queue="q3", gpus=2),
        LOST,
        heal_at=30,
    ),
    SHARED,
    story(
        cluster(),
        devices(),
        with_devices(gang("life", 3, how=NATIVE, queue="q1", seconds=30, spread=1.0, least=1, **LISTED)),
        [Step(0.0, "trouble", SLOW_CLAIM)],
        heal_at=30,
    ),
    story(
        cluster(nodes=1),
        devices(),
        with_devices(gang("life", 2, gpus=0, seconds=30)),
        [
            Step(0.0, "trouble", SLOW_CLAIM),
            Step(START + 0.5, "rival_claim", {"name": "rc", "node": "n0", "seconds": 40.0}),
        ],
        heal_at=60,
    ),
    story(
        cluster(),
        [Step(0.0, "create", URGENT), *gang("life", 4, gpus=4, seconds=100, slow=80)],
        [Step(10.0, "delete_pod", {"name": "life-1"})],
        gang("urgent", 1, at=14.0, gpus=4, priority=100, seconds=30, each=on("n1", priorityClassName="urgent")),
        gang("small", 1, at=20.0, gpus=0, each=on("n1")),
        heal_at=60,
    ),
)
"""What everybody may come across: a member cannot be bound, also one whose claim is given devices for each try, or is
gone while rivals stand at the door, or somebody comes to share a claim whose devices are chosen and not written yet,
one of his own or that of his group, or another scheduler has taken these devices meanwhile. And what is not blamed on
him: that somebody more important has room that was kept, of which he asks for nothing."""


@pytest.mark.parametrize(
    "scenario",
    TOLD,
    ids=(
        "one of it cannot be bound",
        "nor with devices",
        "others want its room",
        "others want its quota",
        "shared",
        "its group's",
        "a rival's",
        "kept",
    ),
)
def test_what_everybody_comes_across_ends_well(scenario):
    assert play(scenario).violations == []


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_the_simulation_finds_it(monkeypatch: pytest.MonkeyPatch, breakage: str):
    BREAKAGES[breakage](monkeypatch)
    likely = [drawn(SHOWN_IN[breakage])] if breakage in SHOWN_IN else []
    found = (one for one in chain(likely, TOLD, map(drawn, range(SEEDS))) if play(one).violations)
    assert next(found, None) is not None, f"{SEEDS} seeds did not show that {breakage}"
