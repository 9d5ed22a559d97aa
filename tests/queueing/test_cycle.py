"""What must hold of every cycle of admission, and what its parts promise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quota.trees import contests, full_trees, state, unhurried
from tutti.api.labels import LabelSelector
from tutti.queueing.cycle import WAITING_FOR_VICTIMS, Cycle
from tutti.queueing.nomination import Entry, Head, Nominator
from tutti.queueing.requeue import Requeue
from tutti.queueing.tournament import in_fair_order
from tutti.quota.flavors import Flavor, Problem, Queue, ResourceGroup
from tutti.quota.oracle import Rules
from tutti.quota.outcome import Choice
from tutti.quota.podsets import PodSet
from tutti.quota.policy import PreemptionPolicy, Who
from tutti.quota.snapshot import Holder, Snapshot
from tutti.quota.tree import Quota, QuotaTree

WHAT = ("f0", "cpu")


def nominator(snapshot, *, fair=False, **changes):
    flavors = {name: Flavor(name) for name in ("f0", "f1")}
    queues = {
        name: Queue(
            name,
            groups=(ResourceGroup(("cpu",), tuple(sorted({flavor for flavor, _ in node.quotas}))),),
            quotas=node.quotas,
            selector=LabelSelector(),
            **changes,
        )
        for name, node in snapshot.tree.queues.items()
    }
    return Nominator(snapshot, queues, flavors, Rules(fair=fair))


def head(queue, cpu, *, least=None, count=1, **more):
    return Head(f"new-{queue}", queue, (PodSet("main", count, {"cpu": cpu}, least),), **more)


def alone(nominal=10, policy=None, **holders):
    tree = QuotaTree({"q": ("", {WHAT: Quota(nominal)})}, {})
    snapshot = Snapshot(tree, {"q": policy or PreemptionPolicy()})
    for name, cpu in holders.items():
        snapshot.add(Holder(name, "q", {WHAT: cpu}))
    return snapshot


@pytest.mark.parametrize("fair", [False, True])
@unhurried
@given(contests(), st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3), st.integers(0, 5)), min_size=4, max_size=4))
def test_all_that_a_cycle_promises_fits_once_the_victims_are_gone(fair, contest, wishes):
    snapshot, _ = contest
    before = state(snapshot)
    names = sorted(snapshot.tree.queues)
    heads = [
        head(name, cpu, priority=priority, queued_at=at)
        for name, (cpu, priority, at) in zip(names, wishes, strict=False)
    ]
    entries = Cycle(nominator(snapshot, fair=fair)).run(heads)
    assert state(snapshot) == before
    assert sorted(entry.head.name for entry in entries) == sorted(one.name for one in heads)
    promised = [entry for entry in entries if entry.admitted or entry.requeue is Requeue.PENDING_PREEMPTION]
    victims = [victim.holder for entry in promised for victim in entry.victims]
    assert len({holder.name for holder in victims}) == len(victims)
    with snapshot.trial():
        for holder in victims:
            snapshot.remove(holder)
        for entry in promised:
            snapshot.charge(entry.head.queue, entry.usage)
        for entry in promised:
            node = snapshot.queue(entry.head.queue)
            assert all(node.available(what) >= 0 for what in entry.usage)
    with snapshot.trial():
        for entry in entries:
            if entry.admitted:
                snapshot.charge(entry.head.queue, entry.usage)
        for entry in entries:
            node = snapshot.queue(entry.head.queue)
            assert not entry.admitted or all(node.available(what) >= 0 for what in entry.usage)


@unhurried
@given(full_trees(), st.lists(st.tuples(st.integers(1, 6), st.integers(0, 2)), min_size=4, max_size=4))
def test_a_tournament_lets_every_head_have_its_turn_once(tree, wishes):
    snapshot = Snapshot(tree, {})
    entries = {
        name: Entry(head(name, cpu, priority=priority), Choice(usage={WHAT: cpu}))
        for name, (cpu, priority) in zip(sorted(tree.queues), wishes, strict=False)
    }
    order = []
    for entry in in_fair_order(snapshot, entries):
        order.append(entry.head.queue)
        snapshot.charge(entry.head.queue, entry.usage)
    assert sorted(order) == sorted(entries)


def test_a_workload_that_fits_is_admitted():
    (entry,) = Cycle(nominator(alone())).run([head("q", 10)])
    assert entry.admitted
    assert entry.usage == {WHAT: 10}


def test_a_workload_that_can_never_fit_says_so():
    (entry,) = Cycle(nominator(alone())).run([head("q", 11)])
    assert (entry.admitted, entry.requeue, entry.reason) == (False, Requeue.NO_FIT, "ExceedsMaxQuota")


def test_a_workload_that_waits_for_quota_says_so():
    (entry,) = Cycle(nominator(alone(running=5))).run([head("q", 6)])
    assert (entry.requeue, entry.reason) == (Requeue.NO_CANDIDATES, "WaitingForQuota")


def test_victims_are_named_and_waited_for():
    snapshot = alone(policy=PreemptionPolicy(within=Who.LOWER_PRIORITY), running=5, other=5)
    (entry,) = Cycle(nominator(snapshot)).run([head("q", 5, priority=1)])
    assert len(entry.victims) == 1
    assert (entry.admitted, entry.requeue, entry.reason) == (False, Requeue.PENDING_PREEMPTION, WAITING_FOR_VICTIMS)


def test_fewer_pods_are_admitted_where_that_is_allowed():
    (entry,) = Cycle(nominator(alone())).run([head("q", 2, count=8, least=1)])
    assert entry.admitted
    assert [pods.count for pods in entry.choice.pod_sets] == [5]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hold": True}, "Suspended"),
        ({"problem": Problem("FlavorNotFound", "")}, "Suspended"),
        ({"selector": None}, "Misconfigured"),
        ({"selector": LabelSelector(match_labels={"team": "a"})}, "Misconfigured"),
    ],
)
def test_nothing_is_admitted_through_a_queue_that_does_not_let_it_in(changes, reason):
    (entry,) = Cycle(nominator_with(alone(), changes)).run([head("q", 1)])
    assert (entry.admitted, entry.reason, entry.choice) == (False, reason, None)


def nominator_with(snapshot, changes):
    queue = Queue("q", **{"selector": LabelSelector(), **changes})
    return Nominator(snapshot, {"q": queue}, {}, Rules())


def test_a_queue_that_does_not_exist_is_named():
    (entry,) = Cycle(nominator(alone())).run([head("elsewhere", 1)])
    assert entry.reason == "Misconfigured"


def two_queues(pool):
    quotas = {WHAT: Quota(0)}
    tree = QuotaTree({"a": ("co", quotas), "b": ("co", quotas)}, {"co": ("", {WHAT: Quota(pool)})})
    return Snapshot(tree, {})


@pytest.mark.parametrize(("fair", "first"), [(False, "a"), (True, "b")])
def test_what_the_first_takes_the_second_cannot_have(fair, first):
    snapshot = two_queues(10)
    snapshot.add(Holder("running", "a", {WHAT: 2}))
    heads = [head("a", 8, queued_at=1), head("b", 8, queued_at=2)]
    entries = Cycle(nominator(snapshot, fair=fair)).run(heads)
    assert [(entry.head.queue, entry.admitted) for entry in entries] == [
        (first, True),
        ("b" if first == "a" else "a", False),
    ]
    assert (entries[1].requeue, entries[1].overtaken) == (Requeue.FAILED_AFTER_NOMINATION, False)


def test_a_workload_without_victims_keeps_what_is_free_from_others():
    quotas = {WHAT: Quota(5)}
    tree = QuotaTree({"a": ("co", quotas), "b": ("co", quotas)}, {})
    snapshot = Snapshot(tree, {})
    snapshot.add(Holder("borrower", "b", {WHAT: 6}))
    entries = Cycle(nominator(snapshot)).run([head("a", 5, queued_at=1), head("b", 4, queued_at=2)])
    assert [(entry.head.queue, entry.reason) for entry in entries] == [
        ("a", "WaitingForQuota"),
        ("b", "WaitingForQuota"),
    ]
    assert entries[1].requeue is Requeue.FAILED_AFTER_NOMINATION


def test_what_fits_only_without_the_victims_of_others_waits_for_them():
    queues = {"a": ("co", {WHAT: Quota(7)}), "b": ("co", {WHAT: Quota(0)}), "c": ("co", {WHAT: Quota(0)})}
    tree = QuotaTree(queues, {"co": ("", {WHAT: Quota(3)})})
    snapshot = Snapshot(tree, {"a": PreemptionPolicy(within=Who.LOWER_PRIORITY)})
    snapshot.add(Holder("victim", "a", {WHAT: 6}))
    snapshot.add(Holder("other", "a", {WHAT: 2}, priority=9))
    heads = [head("a", 5, priority=5), head("b", 2, queued_at=1), head("c", 1, queued_at=2)]
    preemptor, first, second = Cycle(nominator(snapshot)).run(heads)
    assert [one.holder.name for one in preemptor.victims] == ["victim"]
    assert first.admitted
    assert (second.admitted, second.victims, second.reason) == (False, [], WAITING_FOR_VICTIMS)
