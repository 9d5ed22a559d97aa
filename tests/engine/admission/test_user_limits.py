"""Limits of users and groups: who may have how much of a queue at once, and what becomes of who would have more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.world import GPU, World, replaced

USER = "scheduling.tutti.dev/user"
LIMIT_4 = {"users": ["*"], "resources": {GPU: 4}}


def world_of(*limits: dict[str, Any], gpus: int = 16, users: dict[str, Any] | None = None, **queue: Any) -> World:
    world = World(users={"by": "Annotation"} if users is None else users)
    world.node("n1", gpus=16)
    world.node("n2", gpus=16)
    world.flavor()
    world.queue("team", gpus=gpus, userLimits=list(limits), **queue)
    return world


def pod(world: World, name: str, user: str, gpus: int = 1, **more: Any) -> None:
    world.pod(name, gpus=gpus, queue="queue", annotations={USER: user} if user else {}, **more)


def held(world: World, user: str, kind: str = "user") -> tuple[int, int]:
    share = world.engine.state.ledger.held_for.of("team", f"{kind}/{user}")
    return share.resources.get(GPU, 0), len(share.workloads)


def test_a_user_has_no_more_than_his_limit_and_others_go_on():
    world = world_of(LIMIT_4)
    for number in range(6):
        pod(world, f"a{number}", "anna")
    pod(world, "b0", "bert")
    world.run()
    assert sorted(world.where()) == ["a0", "a1", "a2", "a3", "b0"]
    why = world.why("Pod", "a4")
    assert (why.gate, why.reason) == ("UserLimit", "UserLimit")
    assert why.message == (
        "user anna may have 4 nvidia.com/gpu in ClusterQueue team at once: 4 nvidia.com/gpu in use, "
        "and it needs 1 nvidia.com/gpu"
    )
    assert why.details == {
        "limit": "4 nvidia.com/gpu",
        "used": "4 nvidia.com/gpu",
        "needed": "1 nvidia.com/gpu",
        "user": "anna",
    }
    world.finish("a0")
    world.run()
    assert sorted(world.where("a")) == ["a0", "a1", "a2", "a3", "a4"]
    assert held(world, "anna") == (4, 4)
    assert world.replay().differences == []


def test_a_gang_beyond_the_limit_holds_nothing_and_is_told_that_it_never_can():
    world = world_of(LIMIT_4)
    world.object("PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": 5}}, "queueName": "queue"})
    for rank in range(5):
        pod(world, f"g-{rank}", "anna", group="g")
    world.run()
    assert world.where() == {}
    assert world.why("PodGroup", "g").message == (
        "user anna may never have more than 4 nvidia.com/gpu in ClusterQueue team at once, and it needs 5 nvidia.com/gpu; "
        "ask for less, or have userLimits raised"
    )
    assert held(world, "anna") == (0, 0)


def test_members_beyond_the_minimum_start_as_far_as_the_limit_goes():
    world = world_of(LIMIT_4)
    world.object("PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": 2}}, "queueName": "queue"})
    for rank in range(6):
        pod(world, f"g-{rank}", "anna", group="g")
    world.run()
    assert len(world.where()) == 4
    world.object(
        "ClusterQueue",
        "team",
        {**world.objects["ClusterQueue", "", "team"]["spec"], "userLimits": [{**LIMIT_4, "resources": {GPU: 5}}]},
    )
    world.run()
    assert len(world.where()) == 5


def test_the_number_of_workloads_is_limited_whatever_they_ask_for():
    world = world_of({"users": ["anna"], "workloads": 2})
    for number in range(3):
        pod(world, f"a{number}", "anna")
        pod(world, f"b{number}", "bert")
    world.run()
    assert sorted(world.where()) == ["a0", "a1", "b0", "b1", "b2"]
    assert world.why("Pod", "a2").details == {
        "limit": "2 workloads",
        "used": "2 workloads",
        "needed": "1 workload",
        "user": "anna",
    }


def test_a_limit_of_a_group_counts_all_its_users_together():
    users = {"by": "Annotation", "groups": [{"name": "lab", "users": ["anna", "bert"]}]}
    world = world_of({"groups": ["lab"], "resources": {GPU: 3}}, users=users)
    for number in range(2):
        pod(world, f"a{number}", "anna")
        pod(world, f"b{number}", "bert")
        pod(world, f"c{number}", "cleo")
    world.run()
    assert sorted(world.where()) == ["a0", "a1", "b0", "c0", "c1"]
    assert world.why("Pod", "b1").details["group"] == "lab"
    assert held(world, "lab", "group") == (3, 3)


@pytest.mark.parametrize("backwards", [False, True])
def test_who_is_in_several_groups_counts_once_in_each_and_waits_for_the_first_that_is_full(backwards):
    """Also where a group lists him twice; and the same after a restart, whoever is listed first."""
    groups = [{"name": "students", "users": ["anna", "bert", "anna"]}, {"name": "vision", "users": ["anna"]}]
    limits = {"groups": ["students"], "resources": {GPU: 4}}, {"groups": ["*"], "workloads": 3}
    world = world_of(*limits, users={"by": "Annotation", "groups": groups})
    for number in range(3):
        pod(world, f"a{number}", "anna")
    world.run()
    for number in range(3):
        pod(world, f"b{number}", "bert")
    world.run()
    pod(world, "a3", "anna")
    for _ in range(2):
        world.run()
        assert sorted(world.where()) == ["a0", "a1", "a2", "b0"]
        assert (held(world, "students", "group"), held(world, "vision", "group")) == ((4, 4), (3, 3))
        why = world.why("Pod", "a3")
        assert why.message.startswith("group students may have 4 nvidia.com/gpu in ClusterQueue team at once: 4 nvid")
        assert why.message.endswith("; 1 other limit keeps it from starting, too")
        world.restart(backwards=backwards)


def test_the_limit_that_names_a_user_counts_instead_of_that_for_everybody_else():
    world = world_of(LIMIT_4, {"users": ["anna"], "resources": {GPU: 6}})
    for number in range(8):
        pod(world, f"a{number}", "anna")
    for number in range(8):
        pod(world, f"b{number}", "bert")
    world.run()
    assert (held(world, "anna"), held(world, "bert")) == ((6, 6), (4, 4))


def test_service_accounts_of_a_namespace_are_one_user_however_many_somebody_makes():
    """Whoever edits a namespace makes service accounts there and may act as each: each had a limit of its own."""
    world = world_of(LIMIT_4)
    for number in range(8):
        pod(world, f"p{number}", f"system:serviceaccount:mine:made-{number}")
    pod(world, "other", "system:serviceaccount:theirs:default")
    world.run()
    assert len(world.where("p")) == 4
    assert world.where("other")
    assert held(world, "system:serviceaccounts:mine") == (4, 4)
    assert "user system:serviceaccounts:mine may have 4" in world.why("Pod", "p7").message
    world.restart()
    world.run()
    assert held(world, "system:serviceaccounts:mine") == (4, 4)
    assert world.replay().differences == []


@pytest.mark.parametrize("late", [False, True])
def test_a_service_account_that_a_limit_names_has_that_by_itself(late: bool):
    named = "system:serviceaccount:ci:nightly"
    limits = [{"users": [named], "resources": {GPU: 8}}, LIMIT_4]
    world = world_of(*([LIMIT_4] if late else limits))
    for number in range(9):
        pod(world, f"n{number}", named)
    pod(world, "other", "system:serviceaccount:ci:default", gpus=4)
    world.run()
    if late:
        world.queue("team", 16, userLimits=limits)
        world.run()
    assert (len(world.where("n")), len(world.where("other"))) == (8, 1)
    assert held(world, named) == (8, 8)
    assert held(world, "system:serviceaccounts:ci") == (4, 1)
    assert world.replay().differences == []


def test_in_a_strict_queue_who_waits_for_his_limit_is_in_nobodys_way():
    world = world_of(LIMIT_4, queueingStrategy="StrictFIFO")
    pod(world, "a0", "anna", gpus=4)
    world.run()
    for number in range(1, 4):
        pod(world, f"a{number}", "anna", gpus=number)
    pod(world, "b0", "bert")
    world.run()
    assert sorted(world.where()) == ["a0", "b0"]


def test_a_namespace_says_whose_its_workloads_are():
    world = World(namespaces=("default", "other"), users={})
    world.node("n1", gpus=16)
    world.flavor()
    world.queue("team", gpus=16, userLimits=[{"users": ["*"], "resources": {GPU: 2}}])
    world.object("LocalQueue", "queue", {"clusterQueue": "team"}, "other")
    for number in range(3):
        pod(world, f"p{number}", "somebody else")
        world.pod(f"q{number}", queue="queue", namespace="other")
    world.run()
    assert (len(world.where()), len(world.where(namespace="other"))) == (2, 2)
    assert held(world, "default") == (2, 2)


def test_a_template_names_nobody_as_the_user_of_pods_that_have_an_owner():
    world = world_of(LIMIT_4)
    job = world.owner("Job", "train", annotations={USER: "anna"}, spec={"parallelism": 2, "completions": 2})
    for rank in range(2):
        pod(world, f"train-{rank}", "bert", owner=job)
    world.run()
    assert (held(world, "anna")[0], held(world, "bert")[0]) == (2, 0)


def test_what_a_user_has_is_the_same_after_a_restart_in_whatever_order_it_is_listed():
    users = {"by": "Annotation", "groups": [{"name": "lab", "users": ["anna", "bert"]}]}
    world = world_of(LIMIT_4, {"groups": ["lab"], "resources": {GPU: 5}}, users=users)
    for number in range(6):
        pod(world, f"a{number}", "anna")
        pod(world, f"b{number}", "bert")
    world.run()
    before = [held(world, "anna"), held(world, "bert"), held(world, "lab", "group")]
    assert before == [(4, 4), (1, 1), (5, 5)] or before[2] == (5, 5)
    for backwards in (False, True):
        world.restart(backwards=backwards)
        world.run()
        assert [held(world, "anna"), held(world, "bert"), held(world, "lab", "group")] == before
        assert len(world.where()) == 5


def test_the_status_of_the_queue_says_who_has_how_much():
    world = world_of(LIMIT_4)
    for number in range(5):
        pod(world, f"a{number}", "anna")
    pod(world, "b0", "bert")
    world.run()
    told = world.status("ClusterQueue", "team")["users"]
    assert [(one["kind"], one["name"], one["workloads"], one["resources"][GPU]) for one in told] == [
        ("User", "anna", 4, "4"),
        ("User", "bert", 1, "1"),
    ]
    world.finish("b0")
    world.run()
    assert [one["name"] for one in world.status("ClusterQueue", "team")["users"]] == ["anna"]


@pytest.mark.parametrize("name", ["x" * 5000, "\u202e\x00anna", "*", "user/anna", "🦄"])
def test_whatever_a_user_is_called_his_limit_holds(name):
    world = world_of(LIMIT_4)
    for number in range(6):
        pod(world, f"a{number}", name)
    world.run()
    assert len(world.where()) == 4


def test_thousands_of_users_each_have_their_own():
    world = world_of({"users": ["*"], "workloads": 1}, gpus=4000)
    for number in range(3):
        world.node(f"more{number}", gpus=1000, extra={"pods": "2000", "memory": "9999Gi"}, cpu=2000)
    for number in range(1000):
        pod(world, f"a{number}", f"user-{number}")
        pod(world, f"b{number}", f"user-{number}")
    world.run()
    assert len(world.where("a")) == 1000
    assert not world.where("b")


@pytest.mark.parametrize(("users", "says"), [({"by": "Annotation"}, "annotate"), (None, "the configuration of Tutti")])
def test_where_nobody_knows_whose_it_is_a_limit_lets_nobody_start(users, says):
    world = World(**({} if users is None else {"users": users}))
    world.node("n1")
    world.flavor()
    world.queue("team", gpus=8, userLimits=[LIMIT_4])
    pod(world, "p", "")
    world.run()
    why = world.why("Pod", "p")
    assert (why.gate, why.reason) == ("UserLimit", "NoUser")
    assert says in why.message
    if users is not None:
        old = world.pods["default", "p"]
        world.put(replaced(old, metadata=replaced(old.metadata, annotations={USER: "anna"})))
        world.run()
        assert world.where() == {"p": "n1"}
