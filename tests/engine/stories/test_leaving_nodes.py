"""Nodes that an autoscaler takes away: no gang is put on them, and on those that it may take only where nothing else is.

Taints: cluster-autoscaler 1.36, utils/taints/taints.go; Karpenter, pkg/apis/v1/taints.go.
"""

from __future__ import annotations

import pytest

from tests.engine.world import World
from tutti.api.selectors import Taint, Toleration
from tutti.engine.records.gang_membership import GATE_ANNOTATION

ANY = [Toleration(operator="Exists")]


def deleted(at: int = 1) -> Taint:
    return Taint("ToBeDeletedByClusterAutoscaler", str(1_700_000_000 + at), "NoSchedule")


def candidate(at: int = 1) -> Taint:
    return Taint("DeletionCandidateOfClusterAutoscaler", str(1_700_000_000 + at), "PreferNoSchedule")


GOING = [
    deleted(),
    Taint("karpenter.sh/disrupted", "", "NoSchedule"),
    Taint("karpenter.sh/disruption", "disrupting", "NoSchedule"),
]


@pytest.mark.parametrize("taint", GOING, ids=lambda taint: taint.key)
def test_no_gang_goes_to_a_node_that_is_being_taken_away_whatever_its_pods_tolerate(taint):
    world = World()
    world.node("n0", taints=[taint])
    world.gang("g", 2, tolerations=ANY)
    world.run()
    assert world.where() == {}
    why = world.why("PodGroup", "g")
    assert (why.reason, "1 node(s) were leaving the cluster" in why.message) == ("Unschedulable", True)
    world.node("n0")  # the autoscaler has thought better of it
    world.run()
    assert set(world.where().values()) == {"n0"}
    assert not world.replay().differences


def test_a_single_pod_that_tolerates_it_goes_there_as_with_kube_scheduler():
    world = World()
    world.node("n0", taints=[deleted()])
    world.pod("daemon", tolerations=ANY)
    world.pod("other")
    world.run()
    assert world.where() == {"daemon": "n0"}


def test_a_gang_of_several_roles_is_one_gang_though_a_role_has_one_member():
    world = World()
    world.node("n0", gpus=1, taints=[deleted()])
    world.node("n1", gpus=2)
    groups = [{"name": name, "schedulingPolicy": {"gang": {"minCount": n}}} for name, n in (("lead", 1), ("work", 2))]
    world.workload("w", *groups)
    world.pod("lead", workload="w", group="lead", tolerations=ANY)
    for rank in range(2):
        world.pod(f"work-{rank}", workload="w", group="work", tolerations=ANY)
    world.run()
    assert world.where() == {}


def test_a_gang_goes_to_candidates_only_where_it_fits_nowhere_else():
    world = World()
    for name, gpus, taints in (("n0", 4, [candidate()]), ("n1", 8, [])):
        world.node(name, gpus=gpus, labels={"rack": name}, taints=taints)
    topology = {"topology": [{"key": "rack"}]}
    for name, size in (("small", 4), ("last", 4)):
        world.pod_group(name, size, schedulingConstraints=topology)
    for rank in range(4):
        world.pod(f"small-{rank}", group="small")
    world.run()
    assert set(world.where("small").values()) == {"n1"}  # though it would fill the rack of the candidate
    for rank in range(4):
        world.pod(f"last-{rank}", group="last")
    world.run()
    assert set(world.where("last").values()) == {"n1"}
    world.gang("more", 4)
    world.run()
    assert set(world.where("more").values()) == {"n0"}
    assert not world.replay().differences


def test_a_gang_that_needs_both_is_placed_on_candidates_and_others():
    """Ruled out, they would look like room to cluster-autoscaler, which would add no others, and the gang would wait."""
    world = World()
    world.node("n0", gpus=4, taints=[candidate()])
    world.node("n1", gpus=4)
    world.gang("g", 8)
    world.run()
    assert sorted(world.where().values()) == ["n0"] * 4 + ["n1"] * 4


def test_a_reservation_on_a_node_that_leaves_is_given_back_and_made_elsewhere():
    world = World()
    world.node("n0", gpus=4)
    world.gang("g", 4, annotations={GATE_ANNOTATION: "budget"}, tolerations=ANY)
    world.run()
    assert world.reason("PodGroup", "g") == "WaitingForApproval"
    world.node("n1", gpus=4)
    world.node("n0", gpus=4, taints=[deleted()])
    world.until(30)
    assert {m.pod.assumed for m in world.engine.state.members.values()} == {"n1"}
    assert not world.replay().differences


def test_the_time_in_a_taint_makes_no_kind_of_nodes_of_its_own():
    """Each node used to have a set of taints of its own for good, with a look at each for every class of pods."""
    world = World()
    for index in range(20):
        world.node(f"n{index}", taints=[deleted(index)])
        world.node(f"n{index}", taints=[candidate(index)])
    assert len(world.engine.state.cluster.nodes.taint_sets) == 3


def test_a_gang_that_runs_gets_its_extra_members_on_nodes_that_stay():
    world = World()
    world.node("n0", gpus=2)
    world.gang("g", 2)
    world.run()
    world.node("n1", gpus=2, taints=[deleted()])
    world.pod("g-2", group="g", tolerations=ANY)
    world.run()
    assert sorted(world.where()) == ["g-0", "g-1"]
