"""Why a workload waits, gate by gate, and what would unblock it; what is said to help does."""

from __future__ import annotations

import copy

import pytest

from tests.cli.views import scene
from tests.cli.views.scene import GPU, Json, group, node, ours, pod, told
from tutti.cli.views.command_line import plain
from tutti.cli.views.explain.command import explanation_of
from tutti.cli.views.explain.drawing import draw_explained
from tutti.cli.views.explain.gates import GateContext, gate_steps
from tutti.cli.views.explain.lookup import find_workload
from tutti.cli.views.explain.model import (
    ExplainedWorkload,
    GateOutcome,
    GateStep,
    NodeRoom,
    OperatorStatus,
    RuledOutNodes,
)
from tutti.cli.views.explain.remedies import why_no_remedy
from tutti.cli.views.queues import queue_details
from tutti.engine.lifecycle.reservation import BACKING_OFF
from tutti.engine.reading.resolution import queue_of
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.pod_sets import pending_pod_sets

RECLAIMS = "ClusterQueue vision takes back what it has lent (preemption.reclaimWithinCohort: Any)"


def of(name: str, made: list[Json] | None = None, *, trying: bool = True) -> ExplainedWorkload:
    asked = told(made)
    state = asked.stock().state
    key = find_workload(state, asked.listed, *name.split("/"))
    assert not isinstance(key, str), key
    return explanation_of(asked, state, key, trying=trying)


def without(*names: str) -> list[Json]:
    """The scene without some gangs and their pods."""
    return [one for one in scene.objects() if not one["metadata"]["name"].startswith(names)]


def changed(kind: str, name: str, **spec: object) -> list[Json]:
    """The scene with something else in the spec of one object."""
    made = copy.deepcopy(scene.objects())
    next(one for one in made if (one["kind"], one["metadata"]["name"]) == (kind, name))["spec"].update(spec)
    return made


def helps(found: ExplainedWorkload) -> list[str]:
    return [one.what for one in found.remedies if not one.then]


def verdicts(found: ExplainedWorkload) -> list[str]:
    return [f"{step.gate}: {step.verdict}" for step in found.steps]


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


def test_what_helps_against_a_lack_of_quota():
    assert helps(of("vision/train-2")) == [
        "vision/train-1 (8 nvidia.com/gpu) ends",
        "speech/tune (24 nvidia.com/gpu) ends",
        f"{RECLAIMS}: waits for 1 workload to leave (PodGroup/speech/tune of speech, InCohortReclamation)",
        "the quota of ClusterQueue vision in a100 is raised: nvidia.com/gpu from 16 to 24",
    ]


def test_what_helps_against_a_lack_of_nodes():
    assert helps(of("serving/llm")) == [
        "node h100-2 is uncordoned",
        "serving/notebook-a (4 nvidia.com/gpu) and serving/notebook-b (2 nvidia.com/gpu) end",
        "1 more node like h100-1 (8 nvidia.com/gpu) is added",
    ]


@pytest.mark.parametrize(
    ("members", "wanted"),
    [
        (2, ["node n1 is uncordoned", "node n2 is uncordoned", "1 more node like n0 (8 nvidia.com/gpu) is added"]),
        (3, ["nodes n1, n2 are uncordoned", "2 more nodes like n0 (8 nvidia.com/gpu) are added"]),
        (4, ["3 more nodes like n0 (8 nvidia.com/gpu) are added"]),
    ],
)
def test_no_more_nodes_are_asked_for_than_it_takes(members: int, wanted: list[str]):
    made = [node("n0", "m", "r"), *(node(f"n{n}", "m", "r", unschedulable=True) for n in (1, 2))]
    gang = ours("PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": members}}}, "d")

    assert helps(of("d/g", [*made, gang, *(pod("d", f"g-{n}", 8, gang="g") for n in range(members))])) == wanted


def test_who_is_in_its_own_queue_comes_first_and_then_who_borrows():
    """What another queue gives back of its own goes to those who wait there."""
    made = without("train-2", "train-1")
    made += [
        group("vision", "mine", 1),
        pod("vision", "mine-0", 8, gang="mine", on="a100-1", admitted=("vision", "a100")),
    ]
    found = of("vision/late", [*made, group("vision", "late", 1), pod("vision", "late-0", 8, gang="late")])

    assert helps(found)[:2] == ["vision/mine (8 nvidia.com/gpu) ends", "speech/tune (24 nvidia.com/gpu) ends"]


def test_a_taint_in_the_way_is_told_with_its_nodes():
    taint = {"key": "team", "value": "other", "effect": "NoSchedule"}
    made = [
        node("n", "m", "r", taints=[taint]),
        ours("PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": 1}}}, "d"),
    ]

    assert helps(of("d/g", [*made, pod("d", "g-0", 8, gang="g")])) == [
        "taint team=other:NoSchedule is tolerated, or taken off node n"
    ]


def flavored(*nodes: Json, members: int = 1) -> list[Json]:
    """A gang in a queue whose one flavor asks for nodes with kind=fast."""
    quotas = [{"name": name, "nominalQuota": most} for name, most in ((GPU, "64"), ("cpu", "512"), ("memory", "8Ti"))]
    resources = {"coveredResources": [one["name"] for one in quotas]}
    group = {**resources, "flavors": [{"name": "fast", "resources": quotas}]}
    spec = {"schedulingPolicy": {"gang": {"minCount": members}}, "queueName": "q"}
    return [
        *nodes,
        ours("ResourceFlavor", "fast", {"nodeLabels": {"kind": "fast"}}),
        ours("ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": [group]}),
        ours("LocalQueue", "q", {"clusterQueue": "cq"}, "d"),
        ours("PodGroup", "g", spec, "d"),
        *(pod("d", f"g-{n}", 8, gang="g") for n in range(members)),
    ]


def kind(name: str, value: str = "", **more: bool) -> Json:
    made = node(name, "m", "r", **more)
    made["metadata"]["labels"] |= {"kind": value} if value else {}
    return made


def halves(*, movable: bool = True) -> list[Json]:
    """Two nodes of which a Job's pod has one half each, and a gang of one pod that wants a whole one."""
    made = flavored(kind("a", "fast"), kind("b", "fast"))
    for name in "ab":
        one = pod("d", f"on-{name}", 4, on=name, admitted=("cq", "fast"), owner="Job")
        one["metadata"]["labels"] = {f"{scene.TUTTI}/queue-name": "q"}
        one["metadata"]["annotations"] |= {f"{scene.TUTTI}/movable": "true"} if movable else {}
        made.append(one)
    return made


def test_moves_that_would_do_are_told_though_the_queue_does_not_allow_them():
    found = of("d/g", halves())
    said = [one for one in found.remedies if one.moves]
    assert len(said) == 1
    (moved,) = said[0].moves
    assert said[0].what == (
        f"ClusterQueue cq has consolidation: {{maxMoves: 1}}: then Pod d/{moved.name} (1 pod) from {moved.source[0]} "
        f"to {moved.to[0]} is moved, and it fits on {moved.source[0]}"
    )
    assert {moved.source[0], moved.to[0]} == {"a", "b"}


def test_no_moves_are_told_of_work_that_has_not_opted_in():
    assert not [one for one in of("d/g", halves(movable=False)).remedies if one.moves]


def test_a_label_that_no_node_has_is_told_with_what_nodes_have_and_offered():
    found = of("d/g", flavored(kind("a", "Fast"), kind("b", "Fast"), kind("c")))

    assert "The assigned flavor asks for nodes with kind=fast (the others have Fast or no such label)." in (
        found.steps[3].message
    )
    assert helps(found)[0] == "node a has the label kind=fast"


def test_as_few_nodes_are_labelled_as_it_takes():
    found = of("d/g", flavored(*(kind(f"n{number}") for number in range(6)), members=3))

    assert helps(found)[0] == "nodes n0, n1, n2 have the label kind=fast"


def test_nodes_of_another_kind_are_not_offered_while_there_are_some_of_the_right_one():
    busy = pod("d", "busy", 8, on="right", scheduler="default-scheduler")
    other, bare, tainted = kind("other", "slow"), kind("bare"), kind("tainted", unschedulable=True)

    assert helps(of("d/g", [*flavored(kind("right", "fast"), other, bare, tainted), busy]))[0] == (
        "node bare has the label kind=fast"
    )
    found = of("d/g", [*flavored(kind("right", "fast"), other), busy])
    assert not [told for told in helps(found) if "label" in told]
    assert "kind=fast (the others have slow)" in found.steps[3].message


def test_quota_alone_that_does_not_help_is_told_with_what_comes_then():
    """Raised to what it asks for, the queue would have quota for five pods of eight; nodes have room for two."""
    made = [*without("train-2"), *(pod("vision", f"train-2-{n}", 8, gang="train-2") for n in range(5))]
    (remedy,) = of("vision/train-2", [*made, group("vision", "train-2", 5)]).remedies

    assert remedy.what == "the quota of ClusterQueue vision in a100 is raised: nvidia.com/gpu from 16 to 56"
    assert remedy.then.startswith("0/8 nodes are available in flavor a100: ")


def test_members_that_are_missing_are_told_with_what_comes_then():
    (remedy,) = of("vision/warmup").remedies

    assert remedy.what == "2 more members like warmup-0 are created"
    assert remedy.then == "ClusterQueue vision is StrictFIFO and PodGroup/vision/train-2 is before it"
    assert helps(of("vision/warmup", without("train-2", "tune"))) == ["2 more members like warmup-0 are created"]


def alone(*pods: Json) -> list[Json]:
    """A gang of two that needs no quota, on a node with room for it."""
    return [node("n", "m", "r"), ours("PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": 2}}}, "d"), *pods]


def test_gates_of_members_that_could_be_taken_off():
    gated = pod("d", "g-1", 1, gang="g")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]

    assert helps(of("d/g", alone(pod("d", "g-0", 1, gang="g"), gated))) == [
        "the scheduling gates of 1 member are taken off"
    ]


def test_pods_left_to_another_scheduler_could_be_handed_over():
    other = pod("d", "g-1", 1, gang="g", scheduler="default-scheduler")

    assert "the schedulerName of 1 pod with its label is set to tutti" in helps(
        of("d/g", alone(pod("d", "g-0", 1, gang="g"), other))
    )


def test_a_queue_that_is_not_there_is_named_rightly():
    assert helps(of("serving/batch")) == ["its queueName is main instead of mian"]


def test_a_queue_that_a_pods_label_names_wrongly_is_named_rightly():
    one = pod("serving", "lone", 1)
    one["metadata"]["labels"] = {f"{scene.TUTTI}/queue-name": "mian"}
    made = [other for other in scene.objects() if other["metadata"]["name"] != "notebook-a"]

    assert helps(of("serving/lone", [*made, one])) == ["the queue that its label names is main instead of mian"]


def test_a_queue_on_hold_could_be_let_go():
    made = changed("ClusterQueue", "serving", stopPolicy="Hold")
    next(one for one in made if one["metadata"]["name"] == "batch")["spec"]["queueName"] = "main"
    found = of("serving/batch", [one for one in made if one["metadata"]["name"] != "notebook-a"])

    assert helps(found) == ["stopPolicy of LocalQueue serving/main and ClusterQueue serving is None"]


def test_a_workload_that_is_inactive_could_be_set_active():
    spec = {"active": False, "podGroups": [{"name": "w", "count": 1}]}
    member = pod("d", "w-0", 1)
    member["metadata"]["labels"] = {f"{scene.TUTTI}/workload": "w", f"{scene.TUTTI}/pod-group": "w"}

    assert helps(of("d/w", [node("n", "m", "r"), ours("Workload", "w", spec, "d"), member])) == [
        "its spec.active is set to true"
    ]


def test_what_is_said_to_help_helps():
    """Done on the cluster itself, each has the workload placed: nothing that is told is a guess."""
    made = changed("Node", "h100-2", unschedulable=False)

    assert (
        of("serving/llm", made).summary == "it fits now: Tutti places it as soon as it looks (is the operator running?)"
    )
    assert verdicts(of("serving/llm", made)) == [
        "Gather: Passed",
        "Queue: Passed",
        "Quota: Passed",
        "Placement: Passed",
    ]
    assert not of("serving/llm", made).remedies


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


def test_what_no_node_could_ever_give_is_told_with_what_would_do():
    small, large = node("n", "m", "r"), node("large", "m", "r")
    large["status"]["allocatable"] = {"cpu": "8", "memory": "32Gi", "pods": "110", GPU: "4"}

    assert helps(of("d/p", [large, small, pod("d", "p", 9)])) == [
        "1 more node like n, but with 9 nvidia.com/gpu, is added",
        "none of its pods asks for more than the largest node offers: 8 nvidia.com/gpu",
    ]


def test_pods_that_ask_for_less_may_still_have_to_wait_for_others():
    made = [node("n", "m", "r"), pod("d", "busy", 4, on="n", owner="Job"), pod("d", "p", 9)]
    last = of("d/p", made).remedies[-1]

    assert last.what == "none of its pods asks for more than the largest node offers: 8 nvidia.com/gpu"
    assert "Insufficient nvidia.com/gpu" in last.then


def test_pods_that_ask_for_less_are_looked_at_container_by_container():
    both = pod("d", "p", 6)
    both["spec"]["containers"].append({"name": "side", "resources": {"requests": {GPU: "6", "cpu": "1"}}})
    both["spec"]["initContainers"] = [{"name": "first", "resources": {"requests": {GPU: "12"}}}]
    made = [node("n", "m", "r"), both]

    told = "none of its pods asks for more than the largest node offers: "
    assert f"{told}8 nvidia.com/gpu" in helps(of("d/p", made))
    both["spec"]["containers"][1]["resources"]["requests"]["cpu"] = "63"  # 65 of 64 with the first one
    assert f"{told}64 cpu, 8 nvidia.com/gpu" in helps(of("d/p", made))


def test_where_nothing_helps_that_is_said():
    made = [node("n", "m", "r"), group("d", "g", 2), *(pod("d", f"g-{n}", 1, gang="g") for n in range(2))]
    del made[1]["spec"]["queueName"]
    for one in made[2:]:
        one["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    meta = {"name": "data", "namespace": "d", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    claim = {"accessModes": ["ReadWriteOncePod"], "volumeName": "data"}
    made.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim})
    volume = {"claimRef": {"namespace": "d", "name": "data"}}
    made.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "data"}, "spec": volume})
    found = of("d/g", made)

    assert (found.summary, found.remedies) == ("it waits at the Placement gate: Impossible", ())
    assert "Claim d/data is ReadWriteOncePod, and 2 pods of the gang use it" in message(found, "Placement")
    assert "Nothing that was tried would help: no cordon" in plain(draw_explained(found, scene.AT))
    assert "would help" not in plain(draw_explained(of("d/g", made, trying=False), scene.AT))


def test_what_the_queue_has_no_quota_of_could_be_covered_and_says_nothing_of_nodes():
    groups = scene.queue("serving", "company", "h100", 16)["spec"]["resourceGroups"]
    groups[0]["coveredResources"].remove("memory")
    groups[0]["flavors"][0]["resources"].pop(1)
    made = changed("ClusterQueue", "serving", resourceGroups=groups)
    next(one for one in made if one["metadata"]["name"] == "h100-2")["spec"]["unschedulable"] = False
    found = of("serving/llm", made)

    assert verdicts(found)[2:] == ["Quota: Waits", "Placement: WouldPass"]
    assert message(found, "Quota").startswith("ClusterQueue serving has no quota of memory")
    assert helps(found) == ["ClusterQueue serving is given quota of 16Gi memory or more"]


def test_who_comes_second_is_told_of_as_many_nodes_as_the_first_leaves_it_room_on():
    made = [node("n", "m", "r"), *(pod("d", f"old-{n}", 8, on="n", owner="Job") for n in range(1))]
    for name in ("first", "second"):
        gang = ours("PodGroup", name, {"schedulingPolicy": {"gang": {"minCount": 1}}}, "d")
        made += [gang, pod("d", f"{name}-0", 8, gang=name)]

    assert "1 more node like n (8 nvidia.com/gpu) is added" in helps(of("d/first", made))
    assert "2 more nodes like n (8 nvidia.com/gpu) are added" in helps(of("d/second", made))


def test_a_gang_without_pods_is_told_that_they_have_to_be_created():
    found = of("d/g", [GANG])

    assert (found.remedies, found.hopeless.partition(":")[0]) == ((), "Its pods have to be created")
    # Job, ReplicaSet and StatefulSet controllers of Kubernetes all record that reason where a quota refuses a pod.
    assert found.hopeless.endswith("kubectl get events -n d --field-selector reason=FailedCreate")


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


GANG = ours("PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": 1}}}, "d")


def message(found: ExplainedWorkload, gate: str) -> str:
    return next(step.message for step in found.steps if step.gate == gate)


def test_an_approval_is_told_as_what_is_left():
    asking = copy.deepcopy(GANG)
    asking["metadata"]["annotations"] = {f"{scene.TUTTI}/admission-gate": "ticket 7"}
    found = of("d/g", [node("n", "m", "r"), asking, pod("d", "g-0", 1, gang="g")])

    assert verdicts(found)[3:] == ["Placement: Passed", "Permit: Waits"]
    assert "asks for an approval (ticket 7)" in message(found, "Permit")


def test_whom_it_waits_for_is_told_with_the_room_that_they_will_leave():
    high = pod("d", "g-0", 8, gang="g")
    high["spec"]["priority"] = 100
    found = of("d/g", [node("n", "m", "r"), GANG, pod("d", "low", 8, on="n", owner="Job"), high])

    assert verdicts(found)[3:] == ["Placement: Passed", "Victims: Waits"]
    assert message(found, "Placement") == "there is room once others have left"
    assert "d/low on n" in message(found, "Victims")


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


def test_a_node_is_added_in_the_flavor_that_has_quota():
    second = {
        "name": "h100",
        "resources": [{"name": "cpu", "nominalQuota": 8}, {"name": "memory", "nominalQuota": "1Ti"}],
    }
    second["resources"].append({"name": GPU, "nominalQuota": 16})
    both = scene.queue("q", "", "a100", 4)
    both["spec"]["resourceGroups"][0]["flavors"].append(second)
    made = [
        node("n1", "NVIDIA-A100", "r"),
        node("n2", "NVIDIA-H100", "r"),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "d"}},
        *(ours("ResourceFlavor", f.lower(), {"nodeLabels": {scene.MODEL: f"NVIDIA-{f}"}}) for f in ("A100", "H100")),
        both,
        ours("LocalQueue", "main", {"clusterQueue": "q"}, "d"),
        group("d", "g", 2),
        *(pod("d", f"g-{n}", 8, gang="g") for n in range(2)),
    ]
    found = of("d/g", made)

    assert [(room.flavor, room.fits) for room in found.rooms] == [("a100", 1), ("h100", 1)]
    assert message(found, "Quota").endswith("16 of 16 free nvidia.com/gpu in h100")
    assert "a100" not in message(found, "Quota")
    assert helps(found) == ["1 more node like n2 (8 nvidia.com/gpu) is added"]


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
        for name, amount in ((GPU, "4"), ("cpu", "1"), ("memory", "1Gi"))
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


def seen_by_autoscalers(made: list[Json], name: str) -> tuple[str, ...]:
    return of(name, made, trying=False).autoscaler


def plain_cluster(*made: Json) -> list[Json]:
    """Two racks of two nodes with eight GPUs each."""
    nodes = [node(f"n{i}", "NVIDIA-A100", f"r{i // 2}") for i in range(4)]
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}]
    return [*nodes, *spaces, *made]


def gang(name: str, members: int, gpus: int = 8, *, rack: bool = False) -> list[Json]:
    owner = group("default", name, members, rack=rack)
    del owner["spec"]["queueName"]
    return [
        owner,
        *(pod("default", f"{name}-{index}", gpus, gang=name) for index in range(members)),
    ]


def test_a_gang_that_fits_singly_and_not_in_one_rack_is_told_that_no_node_will_be_added():
    (said,) = seen_by_autoscalers(plain_cluster(*gang("ring", 4, rack=True)), "default/ring")

    assert said.startswith("autoscaler sees room: all 4 pods fit singly, so it adds no nodes. It does not know that")
    assert f"they must share one {scene.RACK} (have nodes added in one {scene.RACK}" in said


def test_a_gang_that_fits_singly_in_part_is_told_for_how_many_nodes_are_added():
    (said,) = seen_by_autoscalers(plain_cluster(*gang("ring", 6, rack=True)), "default/ring")

    assert said.startswith("autoscaler sees room: 4 of 6 pods fit singly, so it adds nodes for 2 pods only.")


def test_a_gang_that_lacks_nothing_but_nodes_is_told_nothing_of_autoscalers():
    assert seen_by_autoscalers(plain_cluster(*gang("big", 6)), "default/big") == ()


def test_pods_that_do_not_select_the_nodes_of_their_flavor_are_told_to():
    room, advice = of("serving/llm", trying=False).autoscaler

    assert "flavor h100 keeps them to nodes with its labels" in room
    assert advice == (
        f"give the pods the node label of flavor h100 as nodeSelector ({scene.MODEL}: NVIDIA-H100): an autoscaler knows no "
        "flavors, and may grow another pool"
    )


def test_pods_that_select_the_nodes_of_their_flavor_are_not():
    made = copy.deepcopy(scene.objects())
    for one in made:
        if one["kind"] == "Pod" and one["metadata"]["name"].startswith("llm"):
            one["spec"]["nodeSelector"] = {scene.MODEL: "NVIDIA-H100"}
    assert seen_by_autoscalers(made, "serving/llm") == ()


def test_who_waits_for_quota_is_told_nothing_of_autoscalers():
    assert of("vision/train-2", trying=False).autoscaler == ()


def with_claim_of_group(count: int, cpu: str) -> list[Json]:
    """Two nodes with two devices each, and a PodGroup of Kubernetes of three pods, with a claim that is the group's."""
    dra, made = "resource.k8s.io/v1", list[Json]()
    for name in ("n0", "n1"):
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": "gpu-0"}, {"name": "gpu-1"}]
        spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": name, "devices": devices}
        meta = {"name": name, "uid": name}
        made += [
            node(name, "m", "r"),
            {"apiVersion": dra, "kind": "ResourceSlice", "metadata": meta, "spec": spec},
        ]
    made.append({"apiVersion": dra, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}})
    asked = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}}
    about = {"name": "ours", "namespace": "d", "uid": "ours"}
    claim = {"devices": {"requests": [asked]}}
    made.append({"apiVersion": dra, "kind": "ResourceClaim", "metadata": about, "spec": claim})
    listed = [{"name": "shared", "resourceClaimName": "ours"}]
    spec = {"schedulingPolicy": {"gang": {"minCount": 3}}, "resourceClaims": listed}
    about = {"name": "g", "namespace": "d", "uid": "g"}
    made.append({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": about, "spec": spec})
    for rank in range(3):
        member = pod("d", f"g-{rank}", 0)
        member["spec"] |= {"schedulingGroup": {"podGroupName": "g"}, "resourceClaims": listed}
        member["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        made.append(member)
    return made


@pytest.mark.parametrize(
    ("count", "cpu", "said"),
    [
        (3, "1", "4 of 4 devices of class gpu match; 0 are taken; on 2 nodes 2 are free of 3 needed."),
        (2, "30", "of 2 nodes with such devices none has room for more than 2 of them."),
    ],
)
def test_what_the_claim_of_a_pod_group_lacks_is_told_in_numbers(count: int, cpu: str, said: str):
    found = of("d/g", with_claim_of_group(count, cpu), trying=False)
    assert message(found, "Placement").endswith(said)
    assert (
        message(of("d/g", with_claim_of_group(2, "1"), trying=False), "Placement") == "nodes have room for all 3 pods"
    )


def with_devices_taken() -> list[Json]:
    """The same with a claim of two devices for each pod, and two pods of somebody else who have all devices."""
    made = [one for one in with_claim_of_group(2, "1") if one["kind"] not in ("PodGroup", "ResourceClaim", "Pod")]
    asked = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}}
    for place, name in enumerate(("has-0", "has-1", "g-0")):
        about = {"name": name, "namespace": "d", "uid": f"claim-{name}"}
        claim: Json = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": about}
        claim["spec"] = {"devices": {"requests": [asked]}}
        uses = pod("d", name, 0, gang=name[:-2], on=f"n{place}" if place < 2 else "")
        uses["metadata"]["uid"] = f"uid-{name}"
        uses["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimName": name}]
        if place < 2:
            at = {"request": "r", "driver": "gpu.example.com", "pool": f"n{place}"}
            results = [{**at, "device": f"gpu-{number}"} for number in range(2)]
            users = [{"resource": "pods", "name": name, "uid": f"uid-{name}"}]
            claim["status"] = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
        made += [claim, uses]
    sizes = {"has": 2, "g": 1}
    groups = [ours("PodGroup", name, {"schedulingPolicy": {"gang": {"minCount": n}}}, "d") for name, n in sizes.items()]
    return [*made, *groups]


def test_whose_end_gives_devices_is_told():
    """With the pods of whoever ends the devices of their claims go, and the next is given them."""
    found = of("d/g", with_devices_taken())
    assert message(found, "Placement").endswith("4 are taken; on 2 nodes 0 are free of 2 needed.")
    assert "d/has (4 devices) ends" in helps(found)


def test_who_finds_devices_that_are_not_written_yet_is_not_told_to_wait_for_them():
    made = [one for one in with_devices_taken() if not one["metadata"]["name"].startswith("has")]
    found = of("d/g", made)
    assert verdicts(found)[-1] == "Placement: Passed"
    assert found.remedies == ()


@pytest.mark.parametrize(
    ("gate", "reason", "ends_by_itself"),
    [
        (Gate.PLACEMENT, "WaitingForData", True),
        (Gate.PLACEMENT, "WaitingForFlavor", True),
        (Gate.QUEUE, "WaitingForWorkloads", True),
        (Gate.QUEUE, "AfterItself", False),
        (Gate.PLACEMENT, "Unschedulable", False),
    ],
)
def test_nothing_has_to_be_changed_where_a_wait_ends_by_itself(gate, reason, ends_by_itself):
    workload = next(iter(told().stock().state.workloads.values()))
    assert (why_no_remedy(workload, Explanation(gate, reason, "it waits")) == "") is ends_by_itself
