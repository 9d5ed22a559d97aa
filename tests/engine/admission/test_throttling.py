"""Throttles keep workloads waiting, whole gangs at once; what each rule says is recorded in tests/differential."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.engine.world import START, World, replaced
from tutti.api.core import Container, ContainerStatus, ResourceRequirements
from tutti.api.throttles import GROUP, VERSION
from tutti.engine.records.decisions import EmitEvent, PatchStatus

TEMPLATE = {"spec": {"schedulerName": "tutti", "containers": [{"resources": {"requests": {"cpu": "1"}}}]}}


def world_of(**settings: Any) -> World:
    world = World(namespaces=("default", "other"), throttles={"name": "kube-throttler", **settings})
    world.node("n1")
    return world


def throttle(
    cpu: int | None = None, *, pods: int | None = None, overrides: list[dict[str, Any]] | None = None, **more: Any
) -> dict[str, Any]:
    spec = {
        "throttlerName": "kube-throttler",
        "selector": {"selectorTerms": [{"podSelector": {"matchLabels": {"app": "x"}}}]},
        "threshold": threshold(cpu, pods),
        "temporaryThresholdOverrides": overrides or [],
    }
    meta = {"name": "t", "uid": "u-t", "namespace": "default"}
    return {"apiVersion": f"{GROUP}/{VERSION}", "metadata": meta, "spec": spec | more}


def threshold(cpu: int | None, pods: int | None = None) -> dict[str, Any]:
    counts = {} if pods is None else {"resourceCounts": {"pod": pods}}
    return counts | ({} if cpu is None else {"resourceRequests": {"cpu": str(cpu)}})


def at(seconds: float) -> str:
    return datetime.fromtimestamp(START + seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def gang(world: World, name: str, size: int, **more: Any) -> None:
    world.gang(name, size, labels={"app": "x"}, **more)


def placed(world: World) -> list[str]:
    return sorted(world.where())


def test_a_gang_starts_whole_or_not_at_all():
    world = world_of()
    world.throttle("Throttle", throttle(4))
    gang(world, "a", 3)
    gang(world, "b", 2)
    world.run()
    assert placed(world) == ["a-0", "a-1", "a-2"]
    why = world.why("PodGroup", "b")
    assert (why.gate, why.reason, why.pod_reason) == ("Throttle", "Throttled", "Throttled")
    assert why.message == "Throttle default/t allows 4 cpu at once: 3 cpu in use, and it needs 2 cpu"
    assert why.details["status"] == "insufficient-including-pod-group"
    world.finish("a-2")
    world.run()
    assert placed(world)[-2:] == ["b-0", "b-1"]


def test_a_raise_that_no_kubelet_has_granted_throttles_nobody():
    world = world_of()
    world.throttle("Throttle", throttle(4))
    gang(world, "a", 1)
    world.run()
    pod = world.pods["default", "a-0"]
    asked = [Container("c", resources=ResourceRequirements({"cpu": "60"}))]
    for allocated, allows in (("1", True), ("60", False)):
        said = ContainerStatus("c", ResourceRequirements({"cpu": "1"}), {"cpu": allocated})
        status = replaced(pod.status, container_statuses=[said])
        world.put(replaced(pod, spec=replaced(pod.spec, containers=asked), status=status))
        gang(world, f"b{allocated}", 2)
        world.run()
        assert (f"b{allocated}-0" in placed(world)) is allows
        world.delete(*[name for name in placed(world) if name.startswith("b")])


def test_a_gang_that_no_threshold_would_let_start_is_told_so():
    world = world_of()
    world.throttle("Throttle", throttle(4))
    gang(world, "a", 5)
    world.run()
    assert world.why("PodGroup", "a").message == (
        "Throttle default/t never allows more than 4 cpu at once, and it needs 5 cpu; "
        "ask for less, or have its threshold raised"
    )


def test_a_limit_between_two_whole_amounts_is_not_rounded_up():
    world = world_of()
    gpus = {"resourceRequests": {"nvidia.com/gpu": "2.5"}}
    world.throttle("Throttle", throttle(threshold=gpus))
    gang(world, "a", 4, min_count=1, gpus=1)
    gang(world, "b", 1, gpus=3)
    world.run()

    assert placed(world) == ["a-0", "a-1"]
    assert world.why("PodGroup", "b").message.startswith("Throttle default/t never allows more than 2 nvidia.com/gpu")


def test_surplus_members_start_as_far_as_a_throttle_lets_them():
    world = world_of()
    world.throttle("Throttle", throttle(pods=4))
    gang(world, "a", 6, min_count=2)
    world.run()
    assert len(placed(world)) == 4
    world.throttle("Throttle", throttle(pods=5))
    world.run()
    assert len(placed(world)) == 5


def test_who_is_promised_room_counts():
    world = world_of()
    world.throttle("Throttle", throttle(4, selector={"selectorTerms": [{"podSelector": {}}]}))
    template = TEMPLATE | {"metadata": {"labels": {"app": "x"}}}
    world.workload("w", {"count": 3, "template": template})
    world.run()
    world.pod("late", cpu="2", labels={"app": "x"})
    world.run()
    assert placed(world) == []
    assert world.why("Pod", "late").details["reserved"] == "3 cpu"
    world.remove_object("Workload", "w")
    world.run()
    assert placed(world) == ["late"]


def test_who_waits_for_an_override_is_told_when_it_starts():
    world = world_of()
    world.flavor("default")
    world.queue("team", gpus=8, local="team")
    later = [{"begin": at(600), "end": at(1200), "threshold": threshold(2)}]
    later += [{"begin": at(1500), "end": at(3000), "threshold": threshold(8)}]
    world.throttle("Throttle", throttle(1, overrides=later))
    for name, size in (("a", 3), ("b", 9)):
        world.workload(name, {"name": "main", "count": size}, queueName="team")
        for number in range(size):
            world.pod(f"{name}-{number}", workload=name, labels={"app": "x"}, gpus=0)
    world.until(120)  # positions are told anew every now and then
    said = [world.status("Workload", name)["pending"].get("estimatedStart") for name in "ab"]
    assert said == [at(1500), None]


def test_what_comes_by_the_clock_is_known_and_wakes_who_waits():
    world = world_of()
    later = [{"begin": at(60), "end": at(120), "threshold": threshold(8)}]
    world.throttle("Throttle", throttle(1, overrides=later))
    gang(world, "a", 2)
    world.run()
    assert world.why("PodGroup", "a").message.endswith(f"it allows 8 cpu from {at(60)} on")
    world.decide(world.engine.wakeup() - world.now)
    world.run()
    assert world.now <= START + 61
    assert placed(world) == ["a-0", "a-1"]
    gang(world, "b", 2)
    world.decide(61)
    world.run()
    assert world.throttle_status("Throttle")["calculatedThreshold"]["threshold"] == {"resourceRequests": {"cpu": "1"}}
    assert "b-0" not in placed(world)


def test_an_override_leaves_unlimited_what_it_does_not_name_unless_told_otherwise():
    for settings, expected in (({}, ["a"]), ({"mergeOverrides": True}, [])):
        world = world_of(**settings)
        usual = [{"begin": "", "end": "", "threshold": threshold(None, pods=9)}]
        world.throttle("Throttle", throttle(1, overrides=usual))
        world.pod("a", cpu="2", labels={"app": "x"})
        world.run()
        assert placed(world) == expected


def test_pods_of_other_schedulers_count_where_they_are_named():
    for settings, expected in (({}, ["a"]), ({"countSchedulers": ["other"]}, [])):
        world = world_of(**settings)
        world.throttle("Throttle", throttle(2))
        world.pod("theirs", cpu="2", node="n1", scheduler="other", labels={"app": "x"})
        world.pod("a", labels={"app": "x"})
        world.run()
        assert [name for name in placed(world) if name != "theirs"] == expected


def test_namespaces_of_a_cluster_throttle_are_followed():
    world = world_of()
    term = {"podSelector": {}, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}
    raw = throttle(0, selector={"selectorTerms": [term]})
    del raw["metadata"]["namespace"]
    world.throttle("ClusterThrottle", raw)
    world.pod("here")
    world.pod("there", namespace="other")
    world.run()
    assert placed(world) == ["here"]
    assert world.why("Pod", "there", "other").message.startswith("ClusterThrottle t never allows more than 0 cpu")
    world.remove_throttle("ClusterThrottle", "t")
    world.run()
    assert sorted(world.where(namespace="other")) == ["there"]


def test_a_throttle_of_another_throttler_is_nothing():
    world = world_of()
    world.throttle("Throttle", throttle(0, throttlerName="another"))
    world.pod("a", labels={"app": "x"})
    world.run()
    assert placed(world) == ["a"]
    assert world.throttle_status("Throttle") == {}


def test_a_label_that_comes_late_counts():
    world = world_of()
    world.pod("runs", labels={"app": "y"})
    world.run()
    world.throttle("Throttle", throttle(1))
    world.run()
    runs = world.pods["default", "runs"]
    world.put(replaced(runs, metadata=replaced(runs.metadata, labels={"app": "x"})))
    world.pod("a", labels={"app": "x"})
    world.run()
    assert placed(world) == ["runs"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"selector": {"selectorTerms": 3}}, "spec cannot be read"),
        ({"threshold": {"resourceRequests": {"cpu": "-1"}}}, "threshold: cpu: '-1' is below zero"),
        ({"threshold": {"resourceCounts": {"pod": -1}}}, "spec cannot be read"),
        ({"temporaryThresholdOverrides": [{"begin": "soon"}]}, "index 0: 'soon' is no time"),
        ({"selector": {"selectorTerms": [{}] * 65}}, "spec cannot be read"),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_told_once_and_harms_nobody_else(spec, message):
    world = world_of()
    world.throttle(
        "Throttle",
        throttle(**spec) if "threshold" not in spec else throttle() | {"spec": {**throttle()["spec"], **spec}},
    )
    world.pod("a", labels={"app": "x"})
    world.run()
    world.decide(5.0)
    assert placed(world) == ["a"]
    told = [one for one in world.log if isinstance(one, EmitEvent) and one.reason == "Unreadable"]
    assert len(told) == 1
    assert told[0].note.startswith(message)
    assert world.throttle_status("Throttle")["calculatedThreshold"]["messages"][0].startswith(message)


def test_a_status_is_written_when_it_says_something_else_and_amounts_once_a_second():
    world = world_of()
    world.throttle("Throttle", throttle(9))
    world.run()
    for number in range(5):
        world.pod(f"p{number}", labels={"app": "x"})
        world.run()
    written = [one for one in world.log if isinstance(one, PatchStatus) and one.kind == "Throttle"]
    assert len(written) == 1
    assert world.engine.wakeup() == START + 1.0
    world.decide(1.0)
    assert world.throttle_status("Throttle")["used"]["resourceCounts"] == {"pod": 5}
    assert world.throttle_status("Throttle")["throttled"] == {
        "resourceCounts": {"pod": False},
        "resourceRequests": {"cpu": False},
    }


@pytest.mark.parametrize("backwards", [False, True])
def test_a_restart_counts_alike(backwards):
    world = world_of()
    world.throttle("Throttle", throttle(4))
    gang(world, "a", 3)
    gang(world, "b", 2)
    world.run()
    world.decide(2.0)
    before, written = world.throttle_status("Throttle"), len(world.log)
    world.restart(backwards=backwards)
    world.run()
    assert placed(world) == ["a-0", "a-1", "a-2"]
    assert world.throttle_status("Throttle") == before
    assert not [one for one in world.log[written:] if isinstance(one, PatchStatus) and one.kind == "Throttle"]
    world.replay()
