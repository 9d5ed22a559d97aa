"""Why a workload waits, gate by gate, and by which names it is found."""

from __future__ import annotations

import copy

import pytest

from tests.cli.views import scene
from tests.cli.views.explaining import GANG, flavored, helps, kind, message, of, verdicts, without
from tests.cli.views.scene import GPU, Json, group, node, ours, pod, told
from tutti.cli.views.command_line import plain
from tutti.cli.views.explain.drawing import draw_explained
from tutti.cli.views.explain.gates import GateContext, gate_steps
from tutti.cli.views.explain.lookup import find_workload
from tutti.cli.views.explain.model import (
    GateOutcome,
    GateStep,
    NodeRoom,
    OperatorStatus,
    RuledOutNodes,
)
from tutti.cli.views.queues import queue_details
from tutti.engine.lifecycle.reservation import BACKING_OFF
from tutti.engine.reading.resolution import queue_of
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.pod_sets import pending_pod_sets


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("vision/warmup", ["Gather: Waits", "Queue: WouldPass", "Quota: Unknown", "Placement: Unknown"]),
        ("serving/batch", ["Gather: Passed", "Queue: Waits", "Quota: Unknown", "Placement: Unknown"]),
        ("vision/train-2", ["Gather: Passed", "Queue: Passed", "Quota: Waits", "Placement: WouldPass"]),
        ("serving/llm", ["Gather: Passed", "Queue: Passed", "Quota: Passed", "Placement: Waits"]),
        ("speech/tune", ["Gather: Passed", "Queue: Passed", "Quota: Passed", "Placement: Passed"]),
    ],
)
def test_gates_are_told_up_to_the_one_that_it_waits_at_and_as_they_would_be_behind(name: str, wanted: list[str]):
    assert verdicts(of(name, trying=False)) == wanted


def test_one_that_rests_after_a_failure_has_to_pass_again_what_it_had_passed():
    asked = told()
    state = asked.stock().state
    workload = state.workloads["PodGroup", "serving", "llm"]
    queue, needs = queue_of(state.catalog, workload, is_required=False), pending_pod_sets(workload)
    rests = Explanation(Gate.PERMIT, BACKING_OFF, "it rests")
    found = {step.gate: step.verdict for step in gate_steps(GateContext(state, workload, queue, needs, (), rests))}
    assert found["Queue"] is GateOutcome.PASSED
    assert found["Quota"] is GateOutcome.WOULD_PASS
    assert found["Placement"] is GateOutcome.WOULD_WAIT
    assert found["Permit"] is GateOutcome.WAITS


def test_a_gate_behind_may_be_closed_as_well():
    """Quota is short for more, and so are nodes: both are told, since to mend one would not do."""
    made = [*without("train-2"), *(pod("vision", f"train-2-{n}", 8, gang="train-2") for n in range(3))]
    found = of("vision/train-2", [*made, group("vision", "train-2", 3)])

    assert verdicts(found)[2:] == ["Quota: Waits", "Placement: WouldWait"]


def test_quota_is_told_in_numbers_with_who_has_what_is_lacking():
    (gpus,) = (one for one in of("vision/train-2", trying=False).quota if one.resource == GPU)

    assert (gpus.needs, gpus.free, gpus.missing, gpus.own, gpus.most, gpus.used, gpus.lent) == (8, 0, 8, 16, 32, 8, 8)
    assert gpus.borrowers == {"speech": 8}


def test_nodes_are_counted_by_what_rules_them_out_with_examples():
    (room,) = of("serving/llm", trying=False).rooms

    assert (room.pods, room.fits, room.open, room.flavor) == (2, 0, 0, "h100")
    assert room.ruled == (
        RuledOutNodes("node(s) didn't belong to the assigned flavor", 5, ("a100-1", "a100-2", "a100-3")),
        RuledOutNodes("Insufficient nvidia.com/gpu", 1, ("h100-1",)),
        RuledOutNodes("node(s) had untolerated taint(s)", 1, ("a100-6",)),
        RuledOutNodes("node(s) were unschedulable", 1, ("h100-2",)),
    )
    assert sum(one.nodes for one in room.ruled) == room.nodes


def test_domains_are_told_where_all_must_share_one():
    made = [node(f"n{n}", "m", f"r{n // 2}") for n in range(4)]
    made += [
        pod("d", f"busy-{n}", used, on=f"n{n}", scheduler="default-scheduler") for n, used in ((0, 8), (1, 4), (3, 6))
    ]
    spread = group("d", "g", 3, rack=True)
    del spread["spec"]["queueName"]
    (room,) = of("d/g", [*made, spread, *(pod("d", f"g-{n}", 4, gang="g") for n in range(3))], trying=False).rooms

    assert (room.level, room.fits) == (scene.RACK, 3)
    assert room.domains == {"r1": 2, "r0": 1}
    assert room.examples == {"n1": 1, "n2": 2}


def test_a_workload_that_runs_is_told_with_its_nodes():
    found = of("speech/tune")

    assert (found.summary, found.phase) == ("it runs", "Scheduled")
    assert found.placed == {"a100-2": 1, "a100-3": 1, "a100-4": 1}


def test_a_gang_that_runs_with_fewer_than_it_needs_says_so():
    """A member was lost, and nothing has made it again: by itself that is no gate to wait at."""
    made = copy.deepcopy(without("tune-1"))
    gang = next(one for one in made if (one["kind"], one["metadata"]["name"]) == ("PodGroup", "tune"))
    gang["status"] = {"started": 3, "conditions": [{"type": "Scheduled", "status": "True", "reason": "Scheduled"}]}
    found = of("speech/tune", made)

    assert found.summary == "it runs with 2 of 3 required members, and waits for 1 successor to be created"
    assert (found.members, found.bound, found.required) == (2, 2, 3)
    assert found.steps[0] == GateStep("Gather", GateOutcome.SHORT, "2 members there, 3 needed")
    assert "!   Gather      2 members there, 3 needed" in plain(draw_explained(found, scene.AT))


def test_members_that_are_promised_are_not_missing():
    groups = [{"name": "w", "count": 3, "template": {"spec": pod("d", "any", 1)["spec"]}}]
    member = pod("d", "w-0", 1)
    member["metadata"]["labels"] = {f"{scene.TUTTI}/workload": "w", f"{scene.TUTTI}/pod-group": "w"}
    made = [*flavored(kind("n", "fast"), members=0)[:-1], member]
    found = of("d/w", [*made, ours("Workload", "w", {"podGroups": groups, "queueName": "q"}, "d")])

    assert found.steps[0] == GateStep("Gather", GateOutcome.PASSED, "1 member there, 2 promised, 3 needed")
    assert verdicts(found)[3:] == ["Placement: Passed", "Permit: Waits"]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("vision/train-2", ("PodGroup", "vision", "train-2")),
        ("vision/train-2-1", ("PodGroup", "vision", "train-2")),
    ],
)
def test_a_workload_goes_by_its_name_and_by_those_of_its_pods(name: str, key: tuple):
    asked = told()

    assert find_workload(asked.stock().state, asked.listed, *name.split("/")) == key


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("serving/notebook-a", "has schedulerName default-scheduler, so Tutti has nothing to say of it"),
        ("vision/train2", "there is vision/train-2"),
        ("speech/llm", "there is no Workload, pod group or pod speech/llm that Tutti places; there is serving/llm"),
        ("default/vision", "`tutti queue vision` shows the ClusterQueue of that name"),
        ("default/a100-4", "`tutti drain-check a100-4` shows what is on the node of that name"),
        ("job/nothing-at-all", "job is taken for a namespace: write NAMESPACE/nothing-at-all, without a kind"),
        ("nowhere/nothing-at-all", "there is no Workload, pod group or pod nowhere/nothing-at-all that Tutti places"),
    ],
)
def test_a_name_that_is_none_is_told_why(name: str, said: str):
    asked = told()
    answer = find_workload(asked.stock().state, asked.listed, *name.split("/"))

    assert isinstance(answer, str)
    assert said in answer


def test_what_the_operator_has_written_is_told_where_it_is_something_else():
    made = copy.deepcopy(scene.objects())
    waits = next(one for one in made if one["metadata"]["name"] == "llm")
    reason = {"gate": "Permit", "reason": "BackingOff", "message": "it is tried again in 8 s"}
    waits["status"] = {"pendingReason": {"position": 1, "reasons": [reason]}}
    found = of("serving/llm", made, trying=False)

    assert found.told == OperatorStatus("Permit", "BackingOff", "it is tried again in 8 s", 1)
    assert "The operator said last:  it is tried again in 8 s" in plain(draw_explained(found, scene.AT))


def test_a_single_pod_is_told_as_one():
    found = of("d/p", [node("n", "m", "r"), pod("d", "p", 9)])

    assert (found.kind, found.steps[0].message) == ("Pod", "it is a pod by itself")
    assert found.steps[3].verdict is GateOutcome.WAITS
    assert (
        "A pod asks for 9 nvidia.com/gpu; the largest node offers 8: ask for less, or add larger nodes"
        in found.steps[3].message
    )


def test_the_name_of_an_owner_leads_to_what_its_pods_are_in():
    gang = [group("d", "g", 1), pod("d", "g-0", 1, gang="g", owner="Job")]
    gang[1]["metadata"]["ownerReferences"][0]["name"] = "train"
    alone = [pod("d", f"s-{n}", 1, owner="Job") for n in range(5)]
    for one in alone:
        one["metadata"]["ownerReferences"][0]["name"] = "sweep"
    asked = told([*gang, *alone])
    state = asked.stock().state

    assert find_workload(state, asked.listed, "d", "train") == ("PodGroup", "d", "g")
    assert find_workload(state, asked.listed, "d", "sweep") == (
        "the pods of d/sweep wait and run each for itself: give the name of one, such as d/s-0, d/s-1, d/s-2 and 2 more"
    )


def test_each_role_has_its_rooms():
    roles = [{"name": "leader", "count": 1}, {"name": "worker", "count": 2}]
    pods = [pod("d", "leader-0", 0), pod("d", "worker-0", 8), pod("d", "worker-1", 8)]
    for one, role in zip(pods, ("leader", "worker", "worker"), strict=True):
        one["metadata"]["labels"] = {f"{scene.TUTTI}/workload": "w", f"{scene.TUTTI}/pod-group": role}
    found = of("d/w", [node("n", "m", "r"), ours("Workload", "w", {"podGroups": roles}, "d"), *pods])

    def told_of(room: NodeRoom) -> tuple[str, int, int]:
        return room.group, room.pods, room.fits

    assert [told_of(room) for room in found.rooms] == [("leader", 1, 1), ("worker", 2, 1)]
    assert helps(found) == ["1 more node like n (8 nvidia.com/gpu) is added"]


def test_an_approval_is_told_as_what_is_left():
    asking = copy.deepcopy(GANG)
    asking["metadata"]["annotations"] = {f"{scene.TUTTI}/admission-gate": "ticket 7"}
    found = of("d/g", [node("n", "m", "r"), asking, pod("d", "g-0", 1, gang="g")])

    assert verdicts(found)[3:] == ["Placement: Passed", "Permit: Waits"]
    assert "asks for an approval (ticket 7)" in message(found, "Permit")


def test_members_beyond_those_required_are_told_of():
    found = of("d/g", [node("n", "m", "r"), GANG, pod("d", "g-0", 8, gang="g", on="n"), pod("d", "g-1", 8, gang="g")])

    assert found.summary == "some of its members run; it waits at the Placement gate: Unschedulable"
    assert [(room.pods, room.fits) for room in found.rooms] == [(1, 0)]


def test_volumes_that_are_not_there_rule_out_every_node():
    claiming = pod("d", "g-0", 1, gang="g")
    claiming["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    (room,) = of("d/g", [node("n", "m", "r"), GANG, claiming]).rooms

    assert room.ruled == (RuledOutNodes('persistentvolumeclaim "data" not found', 1, ()),)


def test_without_nodes_there_is_nothing_to_be_like():
    found = of("d/g", [GANG, pod("d", "g-0", 1, gang="g")])

    assert (found.rooms[0].nodes, found.rooms[0].fits, found.remedies) == (0, 0, ())


def test_an_object_that_cannot_be_read_is_told_with_what_is_wrong():
    broken = ours("PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": -1}}}, "d")

    assert "spec.schedulingPolicy.gang.minCount" in message(
        of("d/g", [node("n", "m", "r"), broken, pod("d", "g-0", 1, gang="g")]), "Gather"
    )


def test_who_stands_behind_the_head_of_a_strict_queue_is_told_what_comes_after_it():
    gang = [group("vision", "zz", 1), pod("vision", "zz-0", 8, gang="zz")]
    found = of("vision/zz", [*without("warmup"), *gang])

    assert verdicts(found)[1:] == ["Queue: Waits", "Quota: WouldWait", "Placement: WouldPass"]
    (remedy,) = found.remedies
    assert remedy.what == "vision/train-2, before it, is taken back"
    assert remedy.then.startswith("ClusterQueue vision: needs 8 nvidia.com/gpu in a100")


def asking(state: str) -> list[Json]:
    """A gang of one that holds quota while a check is asked."""
    since = "2100-01-01T00:00:00Z"  # a clock that is ahead counts as now
    active = {"type": "Active", "status": "True", "reason": "Running", "message": "", "lastTransitionTime": since}
    reserved = {**active, "type": "QuotaReserved"}
    queue = scene.queue("asked", "", "a100", 8)
    queue["spec"].pop("cohortName", None)
    queue["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": "budget"}]}
    amounts = [
        {"flavor": "a100", "resource": name, "amount": amount}
        for name, amount in ((GPU, "4"), ("cpu", "2"), ("memory", "8Gi"))
    ]
    held = {"name": "g", "count": 1, "flavors": {GPU: "a100"}, "held": amounts}
    gang = group("b", "g", 1)
    gang["spec"]["queueName"] = "main"
    gang["status"] = {
        "conditions": [reserved],
        "admission": {"clusterQueue": "asked", "podGroups": [held], "round": 1},
        "admissionChecks": [{"name": "budget", "state": state, "lastTransitionTime": since}],
        "checksRound": 1,
    }
    return [
        node("n", "m", "r"),
        ours("ResourceFlavor", "a100", {}),
        {**ours("AdmissionCheck", "budget", {"controllerName": "x/y"}), "status": {"conditions": [active]}},
        queue,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}},
        ours("LocalQueue", "main", {"clusterQueue": "asked"}, "b"),
        gang,
        pod("b", "g-0", 4, gang="g"),
    ]


def test_who_holds_quota_while_a_check_is_asked_waits_at_the_gate_of_checks():
    found = of("b/g", asking("Pending"))
    gates = ["Gather: Passed", "Queue: Passed", "Quota: Passed", "Checks: Waits", "Placement: WouldPass"]
    assert verdicts(found) == gates
    assert found.summary == "it waits at the Checks gate"
    assert (found.remedies, found.hopeless) == ((), "")
    details = queue_details(told(asking("Pending")).stock().state, "asked")
    assert details is not None
    assert [(one.name, one.gate) for one in details.checking] == [("g", "Checks")]


def test_a_check_that_is_ready_is_passed():
    found = of("b/g", asking("Ready"))
    assert found.summary.startswith("it fits now")
    assert "Checks: Passed" in verdicts(found)


def test_who_starts_after_others_waits_in_its_queue_and_is_placed_if_it_names_nobody():
    spec = {"queueName": "main", "podGroups": [{"name": "main", "count": 1}], "after": [{"workload": "prepare"}]}
    made = [*without("train-2"), ours("Workload", "follow", spec, "serving")]
    made.append(pod("serving", "follow-0", 0, labels={f"{scene.TUTTI}/workload": "follow"}))
    found = of("serving/follow", made)

    assert found.summary == "it waits for workloads"
    assert verdicts(found)[1] == "Queue: Waits"
    assert helps(found) == ["it names nobody in spec.after"]
