"""What can never be had is told before what only has to be waited for: all that a workload asks for is needed."""

from __future__ import annotations

from tests.engine.world import GPU, World


def groups(**quotas):
    """Resource groups by resource, each with the nominal quotas of its flavors."""
    return [
        {
            "coveredResources": [resource],
            "flavors": [
                {"name": name, "resources": [{"name": resource, "nominalQuota": nominal}]}
                for name, nominal in flavors.items()
            ],
        }
        for resource, flavors in quotas.items()
    ]


def world_of(cohort="", **queues):
    """A world with queues of these resource groups, and a door of the same name to each."""
    world = World()
    world.node("n")
    for name in sorted({flavor["name"] for one in queues.values() for group in one for flavor in group["flavors"]}):
        world.flavor(name)
    for name, resource_groups in queues.items():
        spec = {"namespaceSelector": {}, "resourceGroups": resource_groups}
        world.object("ClusterQueue", name, {**spec, **({"cohortName": cohort} if cohort else {})})
        world.object("LocalQueue", name, {"clusterQueue": name})
    return world


def test_a_pod_set_that_can_never_have_its_quota_is_told_before_one_that_waits():
    world = world_of(queue=groups(cpu={"a": 4}))
    world.pod("running", queue="queue", gpus=0, cpu="3", memory="0")
    world.run()
    world.object(
        "Workload", "wl", {"queueName": "queue", "podGroups": [{"name": "x", "count": 1}, {"name": "y", "count": 1}]}
    )
    world.pod("first", workload="wl", group="x", gpus=0, cpu="2", memory="0")
    world.pod("second", workload="wl", group="y", gpus=0, cpu="3", memory="0")
    world.run()

    why = world.why("Workload", "wl")
    assert why.reason == "ExceedsMaxQuota"
    assert "needs 5 cpu in a" in why.message


def test_a_flavor_that_is_short_is_not_told_where_another_of_its_group_fits():
    world = world_of(queue=groups(cpu={"a": 3, "b": 9}, **{GPU: {"c": 1}}))
    world.pod("running", queue="queue", gpus=0, cpu="3", memory="0")
    world.run()
    world.pod("more", queue="queue", gpus=2, cpu="3", memory="0")
    world.run()

    why = world.why("Pod", "more")
    assert why.reason == "ExceedsMaxQuota"
    assert "cpu" not in why.message


def test_a_group_of_resources_behind_one_that_waits_is_looked_at_too():
    cpu = {"a": 3}
    world = world_of("all", queue=groups(cpu=cpu, **{GPU: {"b": 1}}), other=groups(cpu=cpu))
    world.pod("running", queue="other", gpus=0, cpu="3", memory="0")
    world.run()
    world.pod("more", queue="queue", gpus=2, cpu="4", memory="0")
    world.run()

    why = world.why("Pod", "more")
    assert why.reason == "ExceedsMaxQuota"
    assert "cpu" in why.message


def a_gang_that_borrows(first, second, **others):
    """Why a gang waits whose first group would borrow what is in use, and that asks for more in the second."""
    world = world_of("all", queue=groups(cpu={"a": 1, **others}), other=groups(cpu={"a": 3}))
    world.pod("running", queue="other", gpus=0, cpu="3", memory="0")
    world.run()
    world.object(
        "Workload", "wl", {"queueName": "queue", "podGroups": [{"name": "x", "count": 1}, {"name": "y", "count": 1}]}
    )
    world.pod("first", workload="wl", group="x", gpus=0, cpu=first, memory="0")
    world.pod("second", workload="wl", group="y", gpus=0, cpu=second, memory="0")
    world.run()
    return world.why("Workload", "wl")


def test_a_pod_set_behind_one_that_has_to_wait_is_looked_at_too():
    why = a_gang_that_borrows("3", "5")
    assert why.reason == "ExceedsMaxQuota"
    assert "needs 5 cpu in a" in why.message or "needs 8 cpu in a" in why.message


def test_what_pod_sets_need_together_of_their_only_flavor_is_looked_at_too():
    why = a_gang_that_borrows("3", "2")
    assert why.reason == "ExceedsMaxQuota"
    assert "needs 5 cpu in a" in why.message


def test_of_two_flavors_that_pod_sets_may_have_neither_is_counted_twice():
    assert a_gang_that_borrows("3", "2", b=2).reason == "WaitingForQuota"
