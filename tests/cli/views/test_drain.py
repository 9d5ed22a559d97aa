"""What a drain would do: where pods go, which gangs break, what forbids it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.views.scene import TUTTI, Json, node, ours, pod, told
from tutti.api.configuration import TuttiConfiguration
from tutti.cli.views.command_line import plain
from tutti.cli.views.drain.checking import check_drain
from tutti.cli.views.drain.command import draw_drain
from tutti.cli.views.drain.trial import AffectedBudget, Drain, PodFate


def drained(*made: Json, name: str = "n0") -> Drain:
    asked = told(list(made))
    return check_drain(asked, asked.stock().state, name)


def fates(found: Drain) -> dict[str, str]:
    return {one.name: one.to or one.fate.value for one in found.pods}


def gang(members: int, *, needed: int | None = None, gpus: int = 8, owner: str = "Job") -> list[Json]:
    """A gang that runs with one member on each node, on nodes n0, n1, ..."""
    spec = {"schedulingPolicy": {"gang": {"minCount": members if needed is None else needed}}}
    pods = [pod("d", f"g-{n}", gpus, gang="g", on=f"n{n}", owner=owner) for n in range(members)]
    return [ours("PodGroup", "g", spec, "d"), *pods]


def nodes(count: int) -> list[Json]:
    return [node(f"n{n}", "m", "r") for n in range(count)]


def budget(name: str, allowed: int, **labels: str) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "d"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }


def test_a_gang_that_finds_another_node_breaks_meanwhile_and_is_whole_again():
    found = drained(*nodes(3), *gang(2))
    (hit,) = found.gangs

    assert fates(found) == {"g-0": "n2"}
    assert (hit.bound, hit.leaving, hit.required, hit.breaks, hit.whole) == (2, 1, 2, True, True)
    assert found.problems == ()
    assert "Until then 1 gang runs with fewer members than needed: d/g" in plain(draw_drain(found))


def test_a_gang_that_finds_no_other_node_stays_broken():
    found = drained(*nodes(2), *gang(2))
    (hit,) = found.gangs

    assert fates(found) == {"g-0": "Waits"}
    assert (hit.breaks, hit.whole) == (True, False)
    assert "Insufficient nvidia.com/gpu" in hit.why
    assert found.problems == ("1 pod would find no other node: d/g-0",)


def test_a_gang_that_stays_broken_is_told_when_it_is_taken_out():
    workload = ours("Workload", "w", {"podGroups": [{"name": "w", "count": 2}], "readyTimeoutSeconds": 60}, "d")
    pods = [pod("d", f"w-{n}", 8, on=f"n{n}", owner="Job") for n in range(2)]
    for one in pods:
        one["metadata"]["labels"] = {f"{TUTTI}/workload": "w", f"{TUTTI}/pod-group": "w"}
    found = drained(*nodes(2), workload, *pods)

    assert (found.gangs[0].breaks, found.gangs[0].whole, found.gangs[0].patience) == (True, False, 60)
    assert "; taken out as a whole after 60 s (readyTimeoutSeconds)" in plain(draw_drain(found))
    (hit,) = drained(*nodes(3), workload, *pods).gangs
    assert (hit.breaks, hit.whole, hit.patience) == (True, True, None)


@pytest.mark.parametrize(("count", "whole"), [(4, True), (3, False)])
def test_a_gang_that_is_deleted_as_a_whole_has_to_find_room_for_all_of_it(count: int, *, whole: bool):
    """The gang plugin of pfnet, DeletedAsPartOfGang: the others leave their nodes, too, and come again together."""
    made = [pod("d", f"g-{n}", 8, on=f"n{n}", owner="Job") for n in range(3)]
    for one in made:
        one["metadata"]["annotations"] = {"gang.example.com/gang-name": "g", "gang.example.com/gang-size": "3"}
    told_so = TuttiConfiguration.model_validate(
        {"conventions": {"pfnetPrefix": "gang.example.com/gang", "pfnetDeleteTogether": True}}
    )
    asked = replace(told([*nodes(count), *made]), configuration=told_so)
    found = check_drain(asked, asked.stock().state, "n0")
    (hit,) = found.gangs

    assert (hit.bound, hit.leaving, hit.deleted, hit.breaks, hit.whole) == (3, 1, True, True, whole)
    assert (fates(found)["g-0"] == "Waits") is not whole
    assert "is deleted as a whole, all 3 pods" in plain(draw_drain(found))


def test_a_gang_with_more_than_it_needs_goes_on():
    (hit,) = drained(*nodes(3), *gang(3, needed=2)).gangs

    assert (hit.breaks, hit.whole) == (False, False)


@pytest.mark.parametrize(
    ("made", "fate"),
    [
        ({"owner": "DaemonSet"}, PodFate.STAYS),
        ({"owner": "ReplicaSet"}, PodFate.MOVES),
        ({}, PodFate.LOST),
    ],
)
def test_what_becomes_of_a_pod_follows_what_controls_it(made: dict, fate: PodFate):
    """Kubectl 1.36, pkg/drain/filters.go: daemonSetFilter, unreplicatedFilter."""
    (one,) = drained(*nodes(2), pod("d", "p", 1, on="n0", scheduler="default-scheduler", **made)).pods

    assert one.fate is fate


def test_a_static_pod_stays_and_one_that_has_ended_is_no_matter():
    """Kubectl 1.36, pkg/drain/filters.go: mirrorPodFilter; a pod that is over is deleted without harm."""
    static = pod("d", "static", 1, on="n0", scheduler="")
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    over = pod("d", "over", 1, on="n0")
    over["status"] = {"phase": "Succeeded"}
    found = drained(*nodes(1), static, over)

    assert fates(found) == {"static": "Stays", "over": "Ended"}
    assert found.problems == ()


@pytest.mark.parametrize(
    ("allowed", "short", "problems"),
    [
        (2, 0, ()),
        (1, 1, ("PodDisruptionBudget d/b allows 1 of 2 evictions now",)),
        (0, 2, ("PodDisruptionBudget d/b allows 0 of 2 evictions now",)),
    ],
)
def test_a_budget_forbids_what_it_does_not_allow(allowed: int, short: int, problems: tuple):
    pods = [pod("d", f"web-{n}", 1, on="n0", owner="ReplicaSet", labels={"app": "web"}) for n in range(2)]
    found = drained(*nodes(2), *pods, budget("b", allowed, app="web"))

    assert found.budgets == (AffectedBudget("d", "b", 2, allowed),)
    assert found.budgets[0].short == short
    assert found.problems == problems


def test_a_pod_that_two_budgets_cover_cannot_be_evicted():
    """Kubernetes 1.36, registry/core/pod/rest/eviction.go: more than one budget is an error."""
    web = pod("d", "web", 1, on="n0", owner="ReplicaSet", labels={"app": "web", "tier": "front"})
    found = drained(*nodes(2), web, budget("a", 5, app="web"), budget("b", 5, tier="front"))

    assert len(found.problems) == 1
    assert found.problems[0].startswith("pod d/web cannot be evicted: budgets d/a and d/b cover it")


def test_no_budget_keeps_a_pod_that_has_not_begun():
    """Kubernetes 1.36, registry/core/pod/storage/eviction.go, canIgnorePDB: nor is one looked for."""
    web = pod("d", "web", 1, on="n0", owner="ReplicaSet", labels={"app": "web", "tier": "front"})
    web["status"] = {"phase": "Pending"}
    found = drained(*nodes(2), web, budget("a", 0, app="web"), budget("b", 0, tier="front"))

    assert fates(found) == {"web": "n1"}
    assert (found.budgets, found.problems) == ((), ())


def with_scratch(mode: str, **kind: object) -> list[Json]:
    """A pod on n0 with an ephemeral volume that is bound, of a class that binds in some mode, to what only n0 has."""
    claim_spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "s"}
    claim_spec["resources"] = {"requests": {"storage": "1Gi"}}
    web = pod("d", "web", 1, on="n0", owner="StatefulSet")
    web["metadata"]["uid"] = "uid-web"
    web["spec"]["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec}}}]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-web", "controller": True}
    said = {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n0"}
    meta = {"name": "web-scratch", "namespace": "d", "uid": "uid-claim", "ownerReferences": [owner]}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {**meta, "annotations": said},
        "spec": {**claim_spec, "volumeName": "v"},
        "status": {"phase": "Bound"},
    }
    only_here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n0"]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {
            "storageClassName": "s",
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "local.example", "volumeHandle": "v"},
            "claimRef": {"namespace": "d", "name": "web-scratch", "uid": "uid-claim"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [only_here]}]}},
        },
        "status": {"phase": "Bound"},
    }
    made = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "s"},
        "provisioner": "local.example",
        "volumeBindingMode": mode,
        **kind,
    }
    return [made, volume, claim, web]


@pytest.mark.parametrize("mode", ["WaitForFirstConsumer", "Immediate"])
def test_an_ephemeral_volume_is_made_anew_with_its_pod(mode: str):
    """Kube-controller-manager 1.36, pkg/controller/volume/ephemeral: the claim is named after pod and volume."""
    found = drained(*nodes(2), *with_scratch(mode))

    assert fates(found) == {"web": "n1"}
    assert found.problems == ()


def test_a_volume_that_is_made_at_once_is_made_where_its_class_may():
    there = {"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": ["n2"]}]}

    assert fates(drained(*nodes(3), *with_scratch("Immediate", allowedTopologies=[there]))) == {"web": "n2"}


def test_a_claim_for_which_nobody_makes_a_volume_at_once_keeps_its_pod_from_every_node():
    (one,) = drained(*nodes(2), *with_scratch("Immediate", provisioner="kubernetes.io/no-provisioner")).pods

    assert (one.fate, one.why) == (PodFate.WAITS, "pod has unbound immediate PersistentVolumeClaims")


def test_what_is_on_the_node_does_not_go_back_to_it():
    (one,) = drained(node("n0", "m", "r"), pod("d", "p", 1, on="n0", owner="Job")).pods

    assert one.fate is PodFate.WAITS
    assert "1 node was unschedulable" in one.why


def test_pods_of_another_scheduler_take_what_is_left_by_ours():
    found = drained(
        *nodes(2),
        pod("d", "mine", 8, on="n0", owner="Job"),
        pod("d", "other", 4, on="n0", owner="Job", scheduler="default-scheduler"),
    )

    assert fates(found) == {"mine": "n1", "other": "Waits"}


def test_a_gang_of_another_scheduler_is_looked_at_pod_by_pod():
    """What its labels mean to that scheduler is not known here; that its pods fit one by one is."""
    labels = {"scheduling.x-k8s.io/pod-group": "theirs"}
    made = pod("d", "other", 1, on="n0", owner="Job", scheduler="default-scheduler", labels=labels)

    assert fates(drained(*nodes(2), made)) == {"other": "n1"}


def test_pods_that_tutti_would_take_out_elsewhere_are_a_problem():
    low = pod("d", "low", 8, on="n1", owner="Job")
    high = pod("d", "high", 8, on="n0", owner="Job")
    high["spec"]["priority"] = 100
    found = drained(*nodes(2), low, high)

    assert found.taken_out == ("d/low",)
    assert "Tutti would take out d/low" in found.problems


def test_the_scene_can_be_asked_of_every_node():
    asked = told()
    state = asked.stock().state

    assert {name: len(check_drain(asked, state, name).problems) for name in sorted(state.cluster.nodes.rows)} == {
        "a100-1": 1,
        "a100-2": 0,
        "a100-3": 0,
        "a100-4": 1,
        "a100-5": 1,
        "a100-6": 0,
        "h100-1": 1,
        "h100-2": 0,
    }


def test_it_names_who_keeps_autoscalers_from_taking_the_node_away():
    made = gang(2)
    ours_too, own = made[1]["metadata"], pod("d", "own", 0, on="n0", owner="Job")
    kept = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
    ours_too["annotations"] = {**kept, f"{TUTTI}/scale-down-protection": ",".join(kept)}
    own["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "4h"}
    free = pod("d", "free", 0, on="n0", owner="Job")
    free["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
    found = drained(*nodes(3), *made, own, free)

    assert found.protected == (
        "d/g-0: d/g needs it (scaleDownProtection)",
        "d/own: karpenter.sh/do-not-disrupt",
    )
    assert found.problems == ()  # kubectl drain does not look at it
    assert "2 pods keep autoscalers from taking it away: d/g-0: d/g needs it" in plain(draw_drain(found))
