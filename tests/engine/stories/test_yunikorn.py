"""Applications of YuniKorn: all their task groups get room together, and start before all of their pods exist.

Rules: yunikorn-k8shim, gang scheduling (placeholders, timeout, styles). Room is kept in memory here, not by pods.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from bench.simulation.recounting import recounted
from tests.engine.lifecycle.test_permit import free
from tests.engine.stories.manifests_of_users import annotated, put
from tests.engine.world import World, replaced
from tutti.engine.ingest import specs
from tutti.engine.records.decisions import CreatePodGroup, Evict

PREFIX = "yunikorn.apache.org"
GPU = {"nvidia.com/gpu": "1"}
SPARK = [
    {"name": "driver", "minMember": 1, "minResource": GPU},
    {"name": "executor", "minMember": 3, "minResource": GPU},
]


def app(
    world: World, name: str, task_group: str, groups: list[dict[str, Any]] | None = None, *, style: str = ""
) -> None:
    """A pod of the application `spark`; the first one declares the task groups."""
    said = {f"{PREFIX}/app-id": "spark", f"{PREFIX}/task-group-name": task_group}
    if groups is not None:
        said[f"{PREFIX}/task-groups"] = json.dumps(groups)
        styled = f" gangSchedulingStyle={style}" if style else ""
        said[f"{PREFIX}/schedulingPolicyParameters"] = f"placeholderTimeoutInSeconds=60{styled}"
    put(world, name, annotated(**said))


def funded() -> World:
    """A namespace with a default queue of plenty: only quota lets members that do not exist yet have room."""
    world = World()
    world.flavor()
    world.queue("cq", 100, local="default")
    return world


def spark(world: World, **how: Any) -> None:
    app(world, "driver", "driver", SPARK, **how)


def test_the_driver_starts_when_there_is_room_for_its_executors_and_this_is_kept_for_them():
    world = funded()
    world.node("n1", gpus=3)
    spark(world)
    world.run()
    assert world.where() == {}
    world.node("n2", gpus=2)
    world.run()
    assert set(world.where()) == {"driver"}
    assert free(world) == 1
    assert "nodes are kept for 3 more members" in world.why("PodGroup", "spark").message
    world.pod("other", gpus=2)
    world.run()
    assert "other" not in world.where()
    for rank in range(3):
        app(world, f"exec-{rank}", "executor")
        world.run()
        assert f"exec-{rank}" in world.where()
        assert free(world) == 1
    assert world.condition("PodGroup", "spark", "Scheduled")["status"] == "True"
    app(world, "exec-3", "executor")  # one more than was asked for
    world.run()
    assert "exec-3" in world.where()
    (made,) = [d for d in world.log if isinstance(d, CreatePodGroup)]
    assert (made.name, made.spec["schedulingPolicy"]) == ("spark", {"gang": {"minCount": 4}})
    assert (world.engine.state.cluster.nodes.requested == recounted(world.engine.state.cluster)).all()
    assert not world.replay().differences


def test_an_executor_that_is_larger_than_was_said_goes_where_there_is_room():
    world = funded()
    world.node("n1", gpus=4)
    world.node("n2", gpus=2)
    groups = [SPARK[0], {"name": "executor", "minMember": 3, "minResource": GPU}]
    app(world, "driver", "driver", groups)
    world.run()
    said = {f"{PREFIX}/app-id": "spark", f"{PREFIX}/task-group-name": "executor"}
    text = {"metadata": {"annotations": said}, "spec": {"nodeSelector": {"kubernetes.io/hostname": "n2"}}}
    put(world, "exec-0", json.dumps(text))
    world.run()
    assert world.where()["exec-0"] == "n2"
    assert sum(len(g.holds) for w in world.engine.state.workloads.values() for g in w.groups.values()) == 2


def test_quota_is_kept_for_members_that_are_yet_to_come():
    world = World()
    world.flavor()
    world.queue("cq", 4, local="default")
    world.node("n1")
    spark(world)
    world.run()
    assert world.used("cq") == 4
    for rank in range(3):
        app(world, f"exec-{rank}", "executor")
    world.run()
    assert world.used("cq") == 4
    world.delete("driver", *(f"exec-{rank}" for rank in range(3)))
    world.run()
    assert world.used("cq") == 0


def test_room_of_members_that_do_not_come_is_given_back_and_what_runs_goes_on():
    world = funded()
    world.node("n1")
    spark(world)
    world.run()
    app(world, "exec-0", "executor")
    world.until(59)
    assert free(world) == 4
    world.until(2)
    assert free(world) == 6
    assert set(world.where()) == {"driver", "exec-0"}
    assert not [d for d in world.log if isinstance(d, Evict)]
    (event,) = world.events("ResourceReservationTimeout")
    assert "2 nodes that were kept are given back, and what runs goes on" in event.note
    app(world, "exec-1", "executor")
    world.run()
    assert "exec-1" in world.where()


@pytest.mark.parametrize("end", ["finished", "deleted", "failed"])
def test_nothing_is_kept_once_whoever_would_make_the_others_has_ended(end):
    world = funded()
    world.node("n1")
    spark(world)
    world.run()
    assert free(world) == 4
    if end == "deleted":
        world.delete("driver")
    else:
        world.finish("driver", phase="Succeeded" if end == "finished" else "Failed")
    world.run()
    assert free(world) == 8
    if end != "deleted":
        world.delete("driver")
        world.run()
    assert world.engine.state.workloads == {}


def test_an_executor_that_outlives_its_failed_driver_is_placed():
    world = funded()
    world.node("n1")
    spark(world)
    world.run()
    world.finish("driver", phase="Failed")
    world.run()
    app(world, "exec-0", "executor")
    world.until(70)
    assert "exec-0" in world.where()


@pytest.mark.parametrize("backwards", [False, True])
def test_a_restart_leaves_a_driver_alone_that_waits_for_its_executors(backwards):
    world = funded()
    world.node("n1")
    spark(world)
    world.run()
    world.restart(backwards=backwards)
    for rank in range(2):
        app(world, f"exec-{rank}", "executor")
        world.until(5)
        assert f"exec-{rank}" in world.where()
    world.until(120)
    assert len(world.where()) == 3
    assert not [d for d in world.log if isinstance(d, Evict)]


def test_a_node_that_is_lost_takes_only_the_room_that_was_kept_on_it():
    world = funded()
    world.node("n1", gpus=1)
    world.node("n2", gpus=3)
    spark(world)
    world.run()
    (node,) = world.where().values()
    world.remove_node({"n1": "n2", "n2": "n1"}[node])
    world.run()
    world.node("n3", gpus=3)
    for rank in range(3):
        app(world, f"exec-{rank}", "executor")
    world.run()
    assert len(world.where()) == 4
    assert (world.engine.state.cluster.nodes.requested == recounted(world.engine.state.cluster)).all()


def test_an_application_that_finds_no_nodes_for_too_long_is_placed_pod_by_pod():
    world = World()
    world.node("n1", gpus=2)
    app(world, "p-0", "workers", [{"name": "workers", "minMember": 3}])
    app(world, "p-1", "workers")
    app(world, "p-2", "workers")
    world.until(59)
    assert world.where() == {}
    world.until(2)
    assert len(world.where()) == 2
    (event,) = world.events("ResourceReservationTimeout")
    assert "placed one by one (Soft)" in event.note
    world.node("n2", gpus=1)
    world.run()
    assert len(world.where()) == 3


def test_a_hard_application_that_finds_no_nodes_for_too_long_is_given_up():
    world = funded()
    world.node("n1", gpus=2)
    groups = [{"name": "workers", "minMember": 3, "minResource": GPU}]
    app(world, "p-0", "workers", groups, style="Hard")
    world.until(61)
    assert world.reason("PodGroup", "spark") == "ResourceReservationTimeout"
    assert "it is given up (Hard)" in world.why("PodGroup", "spark").message
    world.node("n2", gpus=8)
    app(world, "p-1", "workers")
    world.until(60)
    assert world.where() == {}
    assert len(world.events("ResourceReservationTimeout")) == 1


def test_patience_counts_from_when_nodes_are_lacking_and_not_quota():
    world = World()
    world.flavor()
    world.queue("cq", 2, local="default")
    world.node("n1")
    app(world, "p-0", "workers", [{"name": "workers", "minMember": 3, "minResource": GPU}], style="Hard")
    world.until(300)
    assert world.why("PodGroup", "spark").gate == "Quota"
    world.queue("cq", 3, local="default")
    world.run()
    assert set(world.where()) == {"p-0"}


def test_pods_of_an_application_that_nobody_declares_are_placed_one_by_one():
    world = World()
    world.node("n1", gpus=1)
    app(world, "p-0", "workers")
    app(world, "p-1", "workers")
    app(world, "p-2", "others")
    world.run()
    assert len(world.where()) == 1
    world.node("n2", gpus=2)
    world.run()
    assert len(world.where()) == 3
    assert not [d for d in world.log if isinstance(d, CreatePodGroup)]


def test_an_application_without_sizes_of_its_members_waits_for_all_of_them():
    world = World()
    world.node("n1")
    groups = [{"name": "driver", "minMember": 1}, {"name": "executor", "minMember": 2}]
    app(world, "driver", "driver", groups)
    app(world, "exec-0", "executor")
    world.run()
    assert world.where() == {}
    assert "1 of 2 members of pod group executor is there" in world.why("PodGroup", "spark").message
    app(world, "exec-1", "executor")
    world.run()
    assert len(world.where()) == 3


def test_quota_of_room_that_went_with_its_node_is_given_back_at_once():
    world = World()
    world.flavor()
    world.queue("cq", 4, local="default")
    world.node("n1", gpus=1)
    world.node("n2", gpus=3)
    spark(world)
    world.run()
    assert (world.where(), world.used("cq")) == ({"driver": "n1"}, 4)
    world.remove_node("n2")
    world.run()
    assert world.used("cq") == 1
    why = world.why("PodGroup", "spark")
    assert why is None or "nodes are kept" not in why.message


def test_nothing_is_kept_for_members_that_may_not_be_made_and_those_that_exist_start():
    world = World()
    world.allowance("few", pods=2)
    world.node("n1", gpus=3)
    spark(world)
    world.run()
    assert set(world.where()) == {"driver"}
    assert free(world) == 2
    world.pod("other", gpus=2)
    world.run()
    assert "other" in world.where()
    for rank in range(3):
        app(world, f"exec-{rank}", "executor")
    world.node("n2", gpus=2)
    world.until(200)
    assert len(world.where("exec")) == 2  # as far as there is room
    world.node("n3", gpus=1)
    world.run()
    assert len(world.where("exec")) == 3
    world.restart()
    world.until(200)
    assert len(world.where()) == 5
    assert not [d for d in world.log if isinstance(d, Evict)]


def test_where_others_may_not_be_made_those_that_exist_start_together_or_not_at_all():
    world = World()
    world.allowance("two", used={"pods": 2}, pods=2)
    world.node("n1", gpus=1)
    spark(world)
    app(world, "exec-0", "executor")
    world.until(30)
    assert world.where() == {}
    world.node("n2", gpus=1)
    world.run()
    assert set(world.where()) == {"driver", "exec-0"}


def test_what_each_member_says_of_all_task_groups_is_read_once_for_each_task_group(monkeypatch):
    """Each template was read for each member: a thousand of an application with 256 took seconds each time."""
    read = Counter[str]()

    def counted(state: Any, workload: Any, group: Any, template: Any) -> None:
        read[group.name] += 1
        before(state, workload, group, template)

    before = specs.read_promise
    monkeypatch.setattr(specs, "read_promise", counted)
    world = funded()
    groups = [{"name": f"g{at}", "minMember": 3, "minResource": {"cpu": "1"}} for at in range(10)]
    for number in range(20):
        app(world, f"p{number}", f"g{number % 10}", groups)
    read.clear()
    pod = world.pods["default", "p7"]
    world.put(replaced(pod, metadata=replaced(pod.metadata, annotations={**pod.metadata.annotations, "a": "b"})))
    world.decide()
    assert set(read.values()) == {1}
    assert len(read) == 10
