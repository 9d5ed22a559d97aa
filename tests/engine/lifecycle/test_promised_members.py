"""Members have labels that their template has not, which selectors read, and get the room that was promised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.engine.held_owners import HeldWorld, template
from tests.engine.suspended_jobs import a_world
from tests.engine.world import World
from tutti.api.core import Affinity, Pod, PodAffinity, PodAffinityTerm, PodSpec
from tutti.api.selectors import LabelSelector, LabelSelectorRequirement, Toleration
from tutti.api.throttles import GROUP, VERSION
from tutti.cluster.label_index import PodSelecting
from tutti.engine.records.observations import SelectingSeen

JOB_NAME = "batch.kubernetes.io/job-name"
INDEX = "batch.kubernetes.io/job-completion-index"
TEAM = {"team": "a"}
"""What a webhook labels pods with."""
HOSTNAME = "kubernetes.io/hostname"


def service(world: World) -> None:
    """A Service that selects the first pod of the Job."""
    first = LabelSelector(match_labels={INDEX: "0"})
    world.tell(SelectingSeen(PodSelecting("Service", "default", "train", first)))


def loner(world: World) -> None:
    """A pod that wants none of that team near it."""
    term = PodAffinityTerm(HOSTNAME, LabelSelector(match_labels=TEAM))
    affinity = Affinity(pod_anti_affinity=PodAffinity(required=[term]))
    pod = world.pod("loner", gpus=0, gated=True)
    ungated = msgspec.structs.replace(pod.spec, affinity=affinity, scheduling_gates=[])
    world.put(msgspec.structs.replace(pod, spec=ungated))
    world.run()
    assert world.where("loner") == {"loner": "n0"}


def throttled(world: World) -> None:
    """No pod of that team may run."""
    none = {"resourceCounts": {"pod": 0}}
    terms = [{"podSelector": {"matchLabels": TEAM}}]
    spec = {"throttlerName": "throttler", "selector": {"selectorTerms": terms}, "threshold": none}
    meta = {"name": "t", "uid": "u-t", "namespace": "default"}
    world.throttle("Throttle", {"apiVersion": f"{GROUP}/{VERSION}", "metadata": meta, "spec": spec})


def started() -> HeldWorld:
    """A Job of two is started, and one waits that stood in line before it."""
    world = a_world(4)
    world.makes_pods = False
    world.pod("runs", gpus=2)
    world.run()
    world.pod("large", gpus=4)
    world.run()
    zones = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    named = {**zones, "labelSelector": {"matchLabels": {}}, "matchLabelKeys": [JOB_NAME]}
    world.job("train", 2, template=template(topologySpreadConstraints=[named]))
    world.run()
    return world


def only_job(world: World) -> Any:
    """The Job as a workload."""
    return next(one for key, one in world.engine.state.workloads.items() if "train" in key[2])


def comes(world: HeldWorld, rank: int, admission: Callable[[PodSpec], PodSpec] = lambda spec: spec) -> None:
    """The Job makes one of its pods, and what is added to it as it is admitted to the API server."""
    uid = "Job-train"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    meta = {"name": f"train-{rank}", "namespace": "default", "uid": f"pod-{rank}", "ownerReferences": [owner]}
    raw = {
        "metadata": {**meta, "labels": {INDEX: str(rank), JOB_NAME: "train", **TEAM}},
        "spec": world.spec(uid)["template"]["spec"],
    }
    made = msgspec.convert(raw, Pod)
    world.put(msgspec.structs.replace(made, spec=admission(made.spec)))
    world.run()


@pytest.mark.parametrize("key", [JOB_NAME, INDEX])
def test_members_that_are_spread_get_the_nodes_that_were_held_unless_they_are_spread_by_what_tells_them_apart(
    key: str,
) -> None:
    world = a_world(8)
    service(world)
    world.makes_pods = False
    spread = {"topologyKey": HOSTNAME, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    selects = {"matchExpressions": [{"key": key, "operator": "Exists"}]}
    world.job("train", 2, template=template(topologySpreadConstraints=[{**spread, "labelSelector": selects}]))
    world.run()
    deadline = only_job(world).deadline
    world.now += 5
    comes(world, 0)
    assert (only_job(world).deadline == deadline) is (key == JOB_NAME)
    comes(world, 1)
    assert len(set(world.where("train").values())) == 2


def test_a_member_gets_the_room_that_was_held_though_a_service_selects_it_by_a_label_of_its_job() -> None:
    """What was held was given back with each member that came, and who stood before in line took it."""
    world = started()
    service(world)
    deadline = only_job(world).deadline
    world.finish("runs")
    world.now += 5
    comes(world, 0)
    assert (only_job(world).deadline, world.where("large")) == (deadline, {})
    comes(world, 1)
    assert len(world.where("train")) == 2
    assert not world.replay().differences


def tolerating_devices(spec: PodSpec) -> PodSpec:
    """What ExtendedResourceToleration adds."""
    more = Toleration("nvidia.com/gpu", "Exists", effect="NoSchedule")
    return msgspec.structs.replace(spec, tolerations=[*spec.tolerations, more])


def from_another_registry(spec: PodSpec) -> PodSpec:
    """What webhooks make of the names of images."""
    (container,) = spec.containers
    return msgspec.structs.replace(spec, containers=[msgspec.structs.replace(container, image="mirror/image@sha256:0")])


def spread_by_name(spec: PodSpec) -> PodSpec:
    """What the API server makes of `matchLabelKeys`."""
    (constraint,) = spec.topology_spread_constraints
    named = LabelSelectorRequirement(JOB_NAME, "In", ["train"])
    selector = msgspec.structs.replace(constraint.label_selector or LabelSelector(), match_expressions=[named])
    merged = msgspec.structs.replace(constraint, label_selector=selector)
    return msgspec.structs.replace(spec, topology_spread_constraints=[merged])


@pytest.mark.parametrize("admission", [tolerating_devices, from_another_registry, spread_by_name])
def test_a_member_gets_the_room_that_was_held_whatever_is_added_that_is_no_matter_to_its_place(
    admission: Callable[[PodSpec], PodSpec],
) -> None:
    world = started()
    deadline = only_job(world).deadline
    world.finish("runs")
    world.now += 5
    comes(world, 0, admission)
    assert (only_job(world).deadline, world.where("large")) == (deadline, {})
    comes(world, 1, admission)
    assert len(world.where("train")) == 2


def apart(*, keys: list[str]) -> dict[str, Any]:
    """Apart from pods of its app, by what `matchLabelKeys` of the term adds."""
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "train"}}, "matchLabelKeys": keys}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize(("keys", "starts"), [(["run"], True), ([], False)])
def test_a_template_is_kept_apart_from_whom_its_pods_will_be_by_their_own_labels(
    keys: list[str], *, starts: bool
) -> None:
    world = World()
    world.node("n0", gpus=4)
    world.pod("other", labels={"app": "train", "run": "before"})
    world.run()
    labels = {"app": "train", "run": "now"}
    made = {"metadata": {"labels": labels}, **template(affinity=apart(keys=keys))}
    world.flavor()
    world.queue("cq", gpus=8)
    world.workload("train", {"count": 1, "template": made}, queueName="queue")
    world.run()
    assert (world.reason("Workload", "train") == "WaitingForMembers") is starts
    if not starts:
        return
    deadline = world.engine.state.workloads["Workload", "default", "train"].deadline
    world.now += 5
    spec = msgspec.convert(made["spec"], PodSpec)
    assert spec.affinity is not None
    assert spec.affinity.pod_anti_affinity is not None
    (term,) = spec.affinity.pod_anti_affinity.required
    assert term.label_selector is not None
    named = [LabelSelectorRequirement("run", "In", ["now"])]
    term = msgspec.structs.replace(
        term, label_selector=msgspec.structs.replace(term.label_selector, match_expressions=named)
    )
    affinity = Affinity(pod_anti_affinity=PodAffinity(required=[term]))
    pod = world.pod("train-0", workload="train", labels=labels, gated=True)
    world.put(msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, affinity=affinity)))
    world.run()
    assert deadline is not None
    assert world.where("train") == {"train-0": "n0"}


@pytest.mark.parametrize(("replicas", "starts"), [(1, False), (2, True)])
def test_a_job_set_whose_pods_keep_apart_by_the_name_of_their_job_is_started_where_each_has_a_node(
    replicas: int, *, starts: bool
) -> None:
    """Which Job of several a pod is of is not known before it is there."""
    world = a_world(4)
    world.makes_pods = False
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {JOB_NAME: "set-a-0"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    job = {"parallelism": 2, "completions": 2, "template": template(affinity=affinity)}
    roles = [{"name": "a", "replicas": replicas, "template": {"spec": job}}]
    uid = world.held("JobSet", "set", {"suspend": True, "replicatedJobs": roles})
    world.run()
    assert world.waits(uid) is not starts
    if replicas == 1:
        world.node("n9", gpus=4, labels={"pool": "a"})
        world.run()
        assert not world.waits(uid)


def test_a_member_that_lost_a_toleration_of_its_template_is_placed_as_it_is() -> None:
    world = started()
    deadline = only_job(world).deadline
    world.now += 5
    comes(world, 0, lambda spec: msgspec.structs.replace(spec, tolerations=[]))
    assert only_job(world).deadline == deadline + 5


def test_members_that_a_service_tells_apart_by_their_index_are_what_was_promised() -> None:
    """A template says it of one of them; where there is none, those to come are taken to be like one that is there."""
    world = World()
    world.node("n0", gpus=4)
    index = LabelSelector(match_labels={"index": "0"})
    world.tell(SelectingSeen(PodSelecting("Service", "default", "train-0", index)))
    labelled = {"metadata": {"labels": {"index": "0"}}, **template()}
    world.workload("train", {"count": 3, "template": labelled})
    world.pod("train-0", workload="train", labels={"index": "0"})
    world.run()
    deadline = only_job(world).deadline
    assert deadline is not None
    world.now += 5
    world.pod("train-1", workload="train", labels={"index": "1"})
    world.run()
    assert only_job(world).deadline == deadline
    world.pod("train-2", workload="train", labels={"index": "2"})
    world.run()
    assert len(world.where("train")) == 3


@pytest.mark.parametrize("against", [loner, throttled])
def test_a_member_of_whom_somebody_wants_something_by_a_label_of_its_own_is_placed_by_that(
    against: Callable[[World], None],
) -> None:
    world = HeldWorld(throttles={"name": "throttler"})
    world.makes_pods = False
    world.flavor()
    world.queue("team", 100, manage="Suspend")
    world.node("n0", gpus=4)
    against(world)
    world.job("train", 2)
    world.run()
    assert [len(group.holds) for group in only_job(world).groups.values()] == [2]

    comes(world, 0)
    comes(world, 1)
    assert world.where("train") == {}
    if against is loner:
        assert "anti-affinity" in only_job(world).explanation.message
        world.delete("loner")
    else:
        assert only_job(world).explanation.gate == "Throttle"
        world.remove_throttle("Throttle", "t", "default")
    world.until(60)
    assert len(world.where("train")) == 2
    assert not world.replay().differences
