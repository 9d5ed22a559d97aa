"""Workloads of several pod groups: what they need is told in sum, and each PodGroup of theirs tells its own part."""

from __future__ import annotations

from tests.engine.world import World


def parts(world: World, name: str, **counts: int) -> None:
    """A Workload, a PodGroup for each of its groups, and their pods."""
    world.object("Workload", name, {
        "queueName": "queue", "podGroups": [{"name": group, "count": count} for group, count in counts.items()],
    })  # fmt: skip
    for group, count in counts.items():
        ref = {"name": name, "podGroup": group}
        world.pod_group(f"{name}-{group}", count, workloadRef=ref)
        for rank in range(count):
            world.pod(f"{name}-{group}-{rank}", group=f"{name}-{group}")


def test_the_pod_groups_of_a_workload_count_their_own_members():
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("cq", 8)
    parts(world, "rl", actors=2, learner=1)
    world.run()

    for group, count in (("actors", 2), ("learner", 1)):
        status = world.status("PodGroup", f"rl-{group}")
        assert {key: status[key] for key in ("members", "bound", "phase")} == {
            "members": count, "bound": count, "phase": "Scheduled",
        }  # fmt: skip
        assert world.condition("PodGroup", f"rl-{group}", "Scheduled")["status"] == "True"
    assert set(world.engine.state.workloads) == {("Workload", "default", "rl")}


def test_a_pod_group_of_a_waiting_workload_says_why_the_workload_waits():
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("cq", 2)
    parts(world, "rl", actors=2, learner=1)
    world.run()

    for group in ("actors", "learner"):
        (reason,) = world.status("PodGroup", f"rl-{group}")["pendingReason"]["reasons"]
        assert reason["gate"] == "Quota"


def test_what_several_pod_groups_need_of_one_quota_is_told_in_sum():
    world = World()
    world.flavor()
    world.node("n1", gpus=32)
    world.queue("cq", 14)
    parts(world, "big", a=10, b=8)
    world.run()

    why = world.why("Workload", "big")
    assert why.reason == "ExceedsMaxQuota"
    assert "needs 18 nvidia.com/gpu in default; 14 free now (14 of its own 14)" in why.message


def test_parts_that_are_told_once_are_not_told_again_after_a_restart():
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("cq", 8)
    parts(world, "rl", actors=2, learner=1)
    world.run()
    world.restart()

    assert world.run() == []
