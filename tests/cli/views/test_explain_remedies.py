"""What would unblock a workload that waits: what is said to help does."""

from __future__ import annotations

import copy

import pytest

from tests.cli.views import scene
from tests.cli.views.explaining import GANG, alone, flavored, helps, kind, message, of, verdicts, without
from tests.cli.views.scene import GPU, Json, group, node, ours, pod, told
from tutti.cli.views.command_line import plain
from tutti.cli.views.explain.command import explanation_of
from tutti.cli.views.explain.drawing import draw_explained
from tutti.cli.views.explain.remedies import why_no_remedy
from tutti.engine.records.explanation import Explanation, Gate

RECLAIMS = "ClusterQueue vision takes back what it has lent (preemption.reclaimWithinCohort: Any)"


def changed(kind: str, name: str, **spec: object) -> list[Json]:
    """The scene with something else in the spec of one object."""
    made = copy.deepcopy(scene.objects())
    next(one for one in made if (one["kind"], one["metadata"]["name"]) == (kind, name))["spec"].update(spec)
    return made


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


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        pytest.param({"kind": "fsat"}, "kind=fast instead of kind=fsat", id="a value"),
        pytest.param({"kinds": "fast"}, "kind=fast instead of kinds=fast", id="a key"),
        pytest.param({"kind": "slwo", "disk": "ssd"}, "kind=slow instead of kind=slwo", id="beside one that is there"),
    ],
)
def test_a_node_selector_that_no_node_has_is_told_with_one_that_would_do(selector: dict[str, str], wanted: str):
    made = [
        kind("a", "fast"),
        kind("b", "slow"),
        ours("PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": 2}}}, "d"),
    ]
    made[1]["metadata"]["labels"]["disk"] = "ssd"
    pods = [pod("d", f"g-{rank}", 4, gang="g") for rank in range(2)]
    for one in pods:
        one["spec"]["nodeSelector"] = selector

    assert helps(of("d/g", [*made, *pods]))[0] == f"its nodeSelector has {wanted}"


def test_of_several_members_each_mistake_is_told_at_once():
    made = [kind("a", "fast"), ours("PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": 3}}}, "d")]
    made[0]["metadata"]["labels"]["disk"] = "ssd"
    pods = [pod("d", f"g-{rank}", gpus, gang="g") for rank, gpus in enumerate((2, 2, 4))]
    for one, selector in zip(pods, ({"kind": "fsat"}, {"kind": "fsat", "dsik": "ssd"}, {"kind": "fast"}), strict=True):
        one["spec"]["nodeSelector"] = selector

    assert helps(of("d/g", [*made, *pods]))[0] == (
        "its nodeSelector has disk=ssd instead of dsik=ssd and kind=fast instead of kind=fsat"
    )


@pytest.mark.parametrize(
    ("labels", "selector", "free"),
    [
        pytest.param({"kind": "fast"}, {"kind": "fsat"}, 0, id="without room there either"),
        pytest.param({"kind": "t4"}, {"kind": "h100"}, 8, id="another kind"),
        pytest.param({"kubernetes.io/arch": "amd64"}, {"kubernetes.io/arch": "arm64"}, 8, id="another processor"),
        pytest.param({"kubernetes.io/hostname": "a-1"}, {"kubernetes.io/hostname": "a-2"}, 8, id="another node"),
        pytest.param({"role.example.com/login": ""}, {"role.example.com/gpu": ""}, 8, id="another role"),
        pytest.param({"kind": "fast"}, {"kind": "fsat", "disk": "ssd"}, 8, id="beside one that is like none"),
    ],
)
def test_no_other_node_selector_is_told(labels: dict[str, str], selector: dict[str, str], free: int):
    made = [kind("a", "x"), pod("d", "busy", 8 - free, on="a", scheduler="default-scheduler"), pod("d", "one", 8)]
    made[0]["metadata"]["labels"].pop("kind")
    made[0]["metadata"]["labels"].update(labels)
    made[-1]["spec"]["nodeSelector"] = selector

    assert not [told for told in helps(of("d/one", made)) if "nodeSelector" in told]


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


def test_a_change_that_does_not_help_is_tried_once():
    """Each try is an engine that is told the whole cluster: here of lent quota that is taken back, and of more quota."""
    made = [*without("train-2"), *(pod("vision", f"train-2-{n}", 8, gang="train-2") for n in range(5))]
    asked = told([*made, group("vision", "train-2", 5)])
    asked.known = lambda key: asked.decided(asked.listed.seen)[0].workloads[key].explanation

    (remedy,) = explanation_of(asked, asked.stock().state, ("PodGroup", "vision", "train-2")).remedies

    assert remedy.then
    assert asked.effort.tried == 2


def test_members_that_are_missing_are_told_with_what_comes_then():
    (remedy,) = of("vision/warmup").remedies

    assert remedy.what == "2 more members like warmup-0 are created"
    assert remedy.then == "ClusterQueue vision is StrictFIFO and PodGroup/vision/train-2 is before it"
    assert helps(of("vision/warmup", without("train-2", "tune"))) == ["2 more members like warmup-0 are created"]


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
    assert "names it (label scheduling.tutti.dev/pod-group: g)" in found.hopeless


def test_pods_that_name_no_pod_group_are_told_which_they_may_mean():
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    named = [ours("PodGroup", name, spec, "d") for name in ("train", "train-a", "else")]
    pods = [pod("d", "p-0", 8, gang="trian"), pod("d", "p-1", 8, gang="train-a")]

    found = of("d/trian", [*named, *pods])

    said = "has to be created, or their label has to name another: no pods name PodGroup train, which may be the one."
    assert found.hopeless == f"The PodGroup that its pods name {said}"
    assert of("d/trian", pods).hopeless.endswith("or their label has to name another.")


def test_whom_it_waits_for_is_told_with_the_room_that_they_will_leave():
    high = pod("d", "g-0", 8, gang="g")
    high["spec"]["priority"] = 100
    found = of("d/g", [node("n", "m", "r"), GANG, pod("d", "low", 8, on="n", owner="Job"), high])

    assert verdicts(found)[3:] == ["Placement: Passed", "Victims: Waits"]
    assert message(found, "Placement") == "there is room once others have left"
    assert "d/low on n" in message(found, "Victims")


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
