"""`tutti explain workload` of a gang that runs with fewer members than it needs; what is tried is tried by the engine."""

from __future__ import annotations

import copy

from tests.cli.views import scene
from tests.cli.views.loss import gang, nodes
from tests.cli.views.scene import AT, GPU, Json, ours, told
from tests.cli.views.test_degraded import queues
from tutti.api.conditions import timestamp
from tutti.cli.views.command_line import plain
from tutti.cli.views.explain.command import explained
from tutti.cli.views.explain.drawing import draw_explained
from tutti.cli.views.explain.lookup import as_told
from tutti.cli.views.explain.model import Explained, GateOutcome, Step

RACK = {"topology": [{"key": scene.RACK, "mode": "Required"}]}


def of(*made: Json, at: float = AT) -> Explained:
    asked = told(list(made), at=at)
    return explained(asked, asked.stock().state, ("PodGroup", "d", "g"))


def helps(found: Explained) -> list[str]:
    return [one.what for one in found.remedies if not one.then]


def section(found: Explained) -> str:
    """What is drawn of it under DEGRADED, in one line."""
    lines = plain(draw_explained(found, AT)).splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("DEGRADED"))
    last = next((at for at in range(first, len(lines)) if not lines[at]), len(lines))
    return " ".join(" ".join(lines[first:last]).split())


def test_it_says_what_it_has_lost_since_when_what_it_waits_for_and_when_it_is_restarted():
    found = of(*nodes("a", "b", "c"), *gang("a", lost=["b", "gone"], gpus=4))

    assert found.summary == "it runs with 1 of 3 required members, and waits for 2 successors to be created"
    assert found.steps[0] == Step("Gather", GateOutcome.SHORT, "1 member there, 3 needed")
    said = section(found)
    assert "for 2m, since 2023-11-14T22:11:20Z" in said
    assert "1 member of g on b, with 2 cpu, 8Gi memory, 4 nvidia.com/gpu: the node works, and the room is kept" in said
    assert "1 member of g on gone, with 2 cpu, 8Gi memory, 4 nvidia.com/gpu: the node is gone" in said
    assert "restarted whole in 3m, at 2023-11-14T22:16:20Z (onMemberLoss: Restart)" in said
    assert "taken out with reason MemberLost" in said


def test_pods_that_nobody_counts_any_more_are_told_apart_from_those_that_run():
    dead, works = nodes("b", "a")
    dead["spec"]["taints"] = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]
    quiet = scene.pod("d", "g-9", 8, gang="g", on="b", owner="Job")
    quiet["metadata"] |= {"deletionTimestamp": timestamp(AT - 60), "deletionGracePeriodSeconds": 30}
    found = of(dead, works, *gang("a", lost=["b"]), quiet)

    assert (found.placed, found.lost) == ({"a": 1}, {"b": 1})
    shown = [" ".join(line.split()) for line in plain(draw_explained(found, AT)).splitlines()]
    assert "b 1 lost: being deleted on a node that does not work" in shown


def test_successors_that_do_not_exist_yet_are_tried_as_if_they_did():
    found = of(*nodes("a", "b"), *gang("a", lost=["b"]))

    assert found.successors is not None
    assert (found.successors.to, found.successors.why) == ({"b": 1}, "")
    assert "if it came now, it would go to b" in section(found)
    assert found.remedies == ()


def test_where_successors_would_find_no_node_it_is_tried_what_would_help_them():
    made = [*nodes("a", "b"), *gang("a", lost=["gone"])]
    made += [scene.pod("d", "busy", 8, on="b", owner="Job")]
    found = of(*made)

    assert found.successors is not None
    assert found.successors.to == {}
    assert "Insufficient nvidia.com/gpu" in found.successors.why
    assert helps(found)[0] == "d/busy (8 nvidia.com/gpu) ends"
    assert "It would be whole again if any of this were so (each was tried):" in plain(draw_explained(found, AT))


def test_what_is_said_to_help_a_degraded_gang_helps_it():
    made = [*nodes("a", "b"), *gang("a", lost=["gone"], successors=1)]
    busy = scene.pod("d", "busy", 8, on="b", owner="Job")

    assert helps(of(*made, busy))[0] == "d/busy (8 nvidia.com/gpu) ends"
    then = of(*made)
    assert (then.successors is not None and then.successors.to) == {"b": 1}
    assert then.summary == "it runs with 1 of 2 required members, and its 1 successor fits now, and is not placed yet"


def test_the_quota_that_is_kept_is_told_and_is_not_said_to_be_lacking():
    found = of(*nodes("a", "b"), *queues(16), *gang("a", lost=["b"], queue="q", successors=1))

    said = section(found)
    assert "2 cpu (a100), 8Gi memory (a100), 8 nvidia.com/gpu (a100) of ClusterQueue q" in said
    assert "nobody of equal or lower priority may take it" in said
    (gpus,) = (one for one in found.quota if one.resource == GPU)
    assert (gpus.needs, gpus.free, gpus.missing) == (8, 8, 0)


def test_a_gang_that_keeps_is_told_to_run_on():
    said = section(of(*nodes("a", "b"), *gang("a", lost=["b"], onMemberLoss={"action": "Keep"})))

    assert "it runs on with what is left, and its window has no end (onMemberLoss: Keep)" in said
    assert "restarted" not in said


def test_a_gang_that_keeps_takes_successors_as_they_come_and_that_is_what_is_tried():
    found = of(*nodes("a", "b"), *gang("a", lost=["gone", "gone"], onMemberLoss={"action": "Keep"}))

    assert found.successors is not None
    assert found.successors.to == {"b": 1}
    assert "if they came now, 1 of them would go to b, and the others would wait: 0/2 nodes" in section(found)
    assert helps(found) == ["1 more node like a (8 nvidia.com/gpu) is added"]


def test_when_a_restart_would_come_early_is_told():
    in_rack = gang("a", lost=["b"], schedulingConstraints=RACK, queue="q")
    racks = nodes("a", "b")
    for one in racks:
        one["metadata"]["labels"][scene.RACK] = "r1"
    said = section(of(*racks, *queues(), *in_rack))

    assert (
        f"the {scene.RACK} of the others has no room for successors that are there, and a node of theirs is gone"
        in said
    )
    assert "ClusterQueue q can never have as much as all of it needs" in said


def test_one_that_is_restarted_at_once_says_why():
    in_rack = gang("a", lost=["gone"], schedulingConstraints=RACK, successors=1)
    found = of(*nodes("a", "b"), *in_rack)

    assert found.summary == "it is taken out at once, and starts again whole"
    assert "now it is taken out: 1 of 2 required members have a node that works since" in section(found)
    assert "node gone is gone" in section(found)
    assert "restarted whole in" not in section(found)
    assert found.steps[3].verdict is GateOutcome.SHORT


def test_one_whose_window_is_over_says_so():
    found = of(*nodes("a", "b"), *gang("a", lost=["b"], since=AT - 301))

    assert "it is taken out at once, and starts again whole" in found.summary
    assert found.degraded is None


def test_one_that_starts_again_says_that_its_quota_is_kept_until_it_was_tried():
    made = gang("a", lost=["b"], queue="q")[0]
    evicted = {"type": "Evicted", "status": "True", "reason": "MemberLost", "message": "2 of 2 ..."}
    made["status"] |= {"phase": "Waiting", "conditions": [{**evicted, "lastTransitionTime": "2023-11-14T22:13:00Z"}]}
    found = of(*nodes("a", "b"), *queues(), made)

    assert "it starts again whole, after it had lost members" in found.summary


def test_successors_are_like_a_member_that_is_left_and_nothing_is_tried_where_none_is():
    made = gang("a", lost=["b"])
    alone = [made[0]]
    found = of(*nodes("a", "b"), *alone)

    assert found.successors is None


def test_a_degraded_gang_is_told_of_as_the_operator_has_to_those_who_may_not_list():
    made = gang("a", lost=["b"])
    conditions = made[0]["status"]["conditions"]
    conditions[1] |= {"reason": "MemberLost", "message": "1 of 2 required members has a node that works"}
    asked = told([*nodes("a", "b"), *copy.deepcopy(made)])
    found = as_told(asked.listed, "d", "g")

    assert found is not None
    assert found.summary == "it is degraded: 1 of 2 required members has a node that works"


def test_a_gang_of_roles_tells_what_each_has_lost():
    roles = [{"name": "leader", "count": 1}, {"name": "worker", "count": 2}]
    workload = ours("Workload", "g", {"podGroups": roles}, "d")
    status = gang("a", lost=["b"])[0]["status"]
    workload["status"] = {"conditions": status["conditions"], "kept": [{**status["kept"][0], "podGroup": "worker"}]}
    pods = [scene.pod("d", "leader-0", 0, on="a", owner="Job"), scene.pod("d", "worker-0", 8, on="a", owner="Job")]
    for one, role in zip(pods, ("leader", "worker"), strict=True):
        one["metadata"]["labels"] = {f"{scene.TUTTI}/workload": "g", f"{scene.TUTTI}/pod-group": role}
    asked = told([*nodes("a", "b"), workload, *pods])
    found = explained(asked, asked.stock().state, ("Workload", "d", "g"))

    assert found.degraded is not None
    assert [(one.group, one.node) for one in found.degraded.lost] == [("worker", "b")]
    assert found.successors is not None
    assert found.successors.to == {"b": 1}
