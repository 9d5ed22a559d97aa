"""The choice of flavors: what recorded cases do not show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tutti.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration
from tutti.placement.topology.request import LevelRequest, Together
from tutti.quota.assigner import FlavorAssigner
from tutti.quota.assignment import AssignmentMode, NoFit
from tutti.quota.flavors import Flavor, FlavorGroup, PodSet, Queue, by_topology_only, mismatch
from tutti.quota.policy import FlavorRank, Fungibility, PreemptionMode, PreemptionPolicy
from tutti.quota.preemption import resources_to_reserve
from tutti.quota.tree import Quota, QuotaTree

CPU = FlavorGroup(("cpu",), ("f0", "f1", "f2"))
FLAVORS = {name: Flavor(name) for name in ("f0", "f1", "f2", "g0")}


def chooser(used=None, *, groups=(CPU,), flavors=FLAVORS, fungibility=None, **changes):
    quotas = {(name, resource): Quota(10) for group in groups for name in group.flavors for resource in group.covered}
    tree = QuotaTree({"q": ("", quotas)}, {})
    tree.add("q", used or {})
    queue = Queue("q", groups=groups, quotas=quotas, fungibility=fungibility or Fungibility())
    nobody = FlavorRank(PreemptionMode.NO_CANDIDATES)
    return FlavorAssigner(queue, tree.queues["q"], flavors, PreemptionPolicy(), lambda *_: nobody, **changes)


def pods(cpu, name="main", count=1, **more):
    return PodSet(name, count, {"cpu": cpu, **more.pop("requests", {})}, **more)


def flavors_of(choice):
    return {mine.name: {name: one.flavor for name, one in mine.flavors.items()} for mine in choice.pod_sets}


def test_pod_sets_of_one_workload_do_not_take_each_others_quota():
    choice = chooser().assign([pods(6, "a"), pods(6, "b")])
    assert flavors_of(choice) == {"a": {"cpu": "f0"}, "b": {"cpu": "f1"}}
    assert choice.usage == {("f0", "cpu"): 6, ("f1", "cpu"): 6}


def test_pod_sets_of_one_group_share_their_flavor():
    choice = chooser({("f0", "cpu"): 5}).assign([pods(4, "a", group="g"), pods(4, "b", group="g")])
    assert flavors_of(choice) == {"a": {"cpu": "f1"}, "b": {"cpu": "f1"}}


def test_pods_count_where_they_are_covered():
    groups = (FlavorGroup(("cpu", "pods"), ("f0",)),)
    assert chooser(groups=groups).assign([pods(1, count=5)]).usage == {("f0", "cpu"): 5, ("f0", "pods"): 5}
    too_many = chooser(groups=groups).assign([pods(0, count=11)])
    assert (too_many.mode, too_many.why()) == (AssignmentMode.NO_FIT, NoFit.EXCEEDS_MAX_QUOTA)


@pytest.mark.parametrize(("amount", "fits"), [(1, False), (0, True)])
def test_what_the_queue_does_not_cover_cannot_be_had(amount, fits):
    choice = chooser().assign([pods(1, requests={"gpu": amount})])
    assert (choice.mode is AssignmentMode.FIT) == fits
    assert choice.why() is (NoFit.NONE if fits else NoFit.NO_MATCHING_FLAVOR)


def test_a_flavor_that_does_not_exist_is_passed_over():
    choice = chooser(flavors={"f1": Flavor("f1")}).assign([pods(1)])
    assert flavors_of(choice) == {"main": {"cpu": "f1"}}
    assert choice.pod_sets[0].attempts[0].message == "flavor f0 does not exist"


def test_a_workload_without_requests_fits():
    choice = chooser().assign([PodSet("main", 1, {})])
    assert (choice.mode, choice.usage) == (AssignmentMode.FIT, {})


def test_pods_placed_by_topology_need_one_flavor_that_has_one():
    groups = (FlavorGroup(("cpu",), ("f0",)), FlavorGroup(("gpu",), ("g0",)))
    flavors = {name: Flavor(name, levels=("rack",)) for name in ("f0", "g0")}
    choice = chooser(groups=groups, flavors=flavors).assign([pods(1, requests={"gpu": 1}, topology=LevelRequest())])
    assert choice.mode is AssignmentMode.NO_FIT
    said = "its pods are counted in f0 and g0, of which each has a topology: have one count them"
    assert choice.pod_sets[0].problem == said


def test_pods_that_ask_for_nothing_go_anywhere_in_a_queue_of_topologies_unless_they_want_one():
    flavors = {"f0": Flavor("f0", levels=("rack",))}
    queue = chooser(groups=(FlavorGroup(("gpu", "cpu"), ("f0",)),), flavors=flavors)
    choice = queue.assign([PodSet("main", 1, {})])
    assert (choice.mode, choice.usage) == (AssignmentMode.FIT, {})
    choice = queue.assign([PodSet("main", 1, {}, topology=LevelRequest())])
    assert choice.mode is AssignmentMode.NO_FIT
    assert choice.pod_sets[0].problem == (
        "its pods want a topology, which is that of their flavor, and ask for nothing that a flavor of this queue "
        "counts: have them ask for gpu or cpu, or name another queue"
    )


def term(key, value):
    return NodeSelectorTerm(match_expressions=[NodeSelectorRequirement(key, "In", [value])])


@pytest.mark.parametrize(
    ("changes", "right"),
    [
        ({}, True),
        ({"node_selector": {"zone": "a"}}, True),
        ({"node_selector": {"zone": "b"}}, False),
        ({"node_selector": {"other": "b"}}, True),
        ({"affinity": NodeSelector([term("zone", "a")])}, True),
        ({"affinity": NodeSelector([term("zone", "b")])}, False),
        ({"affinity": NodeSelector([term("zone", "b"), term("zone", "a")])}, True),
        ({"affinity": NodeSelector([term("zone", "b"), term("other", "x")])}, True),
    ],
)
def test_a_flavor_answers_for_its_own_labels_only(changes, right):
    flavor = Flavor("f0", (("zone", "a"),))
    assert (mismatch(flavor, pods(1, **changes), CPU, implied=False) == "") == right


def test_a_taint_of_a_flavor_must_be_tolerated_by_the_pods_or_by_the_flavor():
    tainted = Flavor("f0", node_taints=(Taint("gpu", "yes", "NoSchedule"),))
    wrong = mismatch(tainted, pods(1), CPU, implied=False)
    assert wrong == "flavor f0 has the taint gpu=yes:NoSchedule, which is not tolerated"
    tolerant = (Toleration("gpu", "Exists"),)
    assert not mismatch(tainted, pods(1, tolerations=tolerant), CPU, implied=False)
    assert not mismatch(replace(tainted, tolerations=tolerant), pods(1), CPU, implied=False)


@pytest.mark.parametrize(
    ("levels", "topology", "implied", "wrong"),
    [
        ((), None, False, ""),
        (("rack",), None, False, "flavor f0 is only for pods placed by topology"),
        (("rack",), None, True, ""),
        ((), LevelRequest(), False, "flavor f0 has no topology"),
        (("rack",), LevelRequest(Together.REQUIRED, "rack"), False, ""),
        (("rack",), LevelRequest(Together.REQUIRED, "block"), False, "the topology of flavor f0 has no level block"),
    ],
)
def test_a_flavor_must_suit_how_the_pods_are_placed(levels, topology, implied, wrong):
    assert mismatch(Flavor("f0", levels=levels), pods(1, topology=topology), CPU, implied=implied) == wrong


def test_a_queue_is_by_topology_only_where_all_its_flavors_are():
    queue = Queue("q", groups=(CPU,))
    racks = {name: Flavor(name, levels=("rack",)) for name in CPU.flavors}
    assert by_topology_only(queue, racks)
    assert not by_topology_only(queue, {**racks, "f1": Flavor("f1")})
    assert not by_topology_only(Queue("q"), racks)


def test_what_is_held_back_is_never_less_than_nothing():
    what = ("f0", "cpu")
    tree = QuotaTree({"q": ("co", {what: Quota(2, borrowing_limit=3)})}, {})
    tree.add("q", {what: 9})
    assert resources_to_reserve(tree.queues["q"], {what: 4}, borrows=False) == {what: 0}
    assert resources_to_reserve(tree.queues["q"], {what: 4}, borrows=True) == {what: 0}
