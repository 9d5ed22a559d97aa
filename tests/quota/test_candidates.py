"""Who is found by the index of holders, and who is passed over beforehand, is whom a plain scan of everybody finds."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quota.trees import contests, unhurried
from tutti.quota.fair_reclaim import fair_candidates
from tutti.quota.policy import Preemptible, PreemptionPolicy, allows
from tutti.quota.preemption import PreemptionReach, PreemptionRules, Preemptor
from tutti.quota.reclaim import (
    PreemptionReason,
    PreemptionVariant,
    Victim,
    classical_victims,
    find_candidates,
    fits,
    in_victim_order,
)
from tutti.quota.snapshot import AdmittedWorkload, Demand, QueueHolders, Snapshot, nobody_knows
from tutti.quota.tree import Quota, QuotaTree, covers

REASONS = {
    PreemptionVariant.OWN_QUEUE: PreemptionReason.IN_CLUSTER_QUEUE,
    PreemptionVariant.HIERARCHY: PreemptionReason.IN_COHORT_RECLAMATION,
    PreemptionVariant.PRIORITY: PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING,
    PreemptionVariant.PRIORITY_WITHOUT_BORROWING: PreemptionReason.IN_COHORT_RECLAMATION,
}
WHAT = ("f", "cpu")
LOCAL_QUEUES = ("team/one", "team/two")


@st.composite
def moved_contests(draw):
    """A contest whose holders have come and gone: described anew, removed and added again; some are protected."""
    snapshot, demand = draw(contests())
    everybody = [holder for queue in snapshot.tree.queues for holder in snapshot.holders(queue)]
    spared = {holder.name for holder in everybody if draw(st.integers(0, 4)) == 0}
    cross = st.none() | st.integers(-2, 3)
    for holder in draw(st.permutations(everybody)):
        match draw(st.integers(0, 3)):
            case 0:
                snapshot.remove(holder)
            case 1:
                snapshot.dismiss(holder)
                again = msgspec.structs.replace(
                    holder, priority=draw(st.integers(-1, 2)), cross_queue_priority=draw(cross)
                )
                snapshot.enrol(msgspec.structs.replace(again, local_queue=draw(st.sampled_from(LOCAL_QUEUES))))
    snapshot.unprotected = lambda holders: [one for one in holders if one.name not in spared]
    if draw(st.booleans()):
        used = {local: draw(st.integers(0, 2)) for local in LOCAL_QUEUES}
        snapshot.used_lately = lambda holder: used.get(holder.local_queue)
    return snapshot, msgspec.structs.replace(demand, cross_queue_priority=draw(cross))


def named(snapshot, demand, queue, who):
    """Everybody in a queue whom a policy names, one after the other."""
    return [
        holder
        for holder in snapshot.holders(queue.name)
        if not demand.contested.isdisjoint(holder.usage)
        and allows(who, demand, holder, across_queues=queue.name != demand.queue)
        and snapshot.unprotected([holder])
    ]


def scanned(snapshot, demand):
    """All candidates by the classical rules: holder, by what right, nearest common cohort; each kind in order."""
    node, policy = snapshot.queue(demand.queue), snapshot.policy(demand.queue)
    kinds = {"own": [], "hierarchical": [], "by_priority": []}
    for holder in named(snapshot, demand, node, policy.within):
        kinds["own"].append((holder, PreemptionVariant.OWN_QUEUE, None))
    owned, left = covers(node, demand.usage)
    below = {id(node)}
    for cohort in node.ancestors() if policy.reclaim is not Preemptible.NEVER else ():
        for queue in cohort.leaves():
            way = queue.path[: queue.path.index(cohort)]
            if id(queue) in below or not all(step.borrows_any(demand.contested) for step in way):
                continue
            for holder in named(snapshot, demand, queue, policy.reclaim):
                claim = PreemptionVariant.HIERARCHY
                if not owned:
                    while_borrowing = policy.allows_while_borrowing(demand, holder)
                    claim = PreemptionVariant.PRIORITY
                    claim = claim if while_borrowing else PreemptionVariant.PRIORITY_WITHOUT_BORROWING
                kinds["hierarchical" if owned else "by_priority"].append((holder, claim, cohort))
        below |= {id(queue) for queue in cohort.leaves()}
        enough, left = covers(cohort, left)
        owned = owned or enough
    for found in kinds.values():
        order = in_victim_order((one[0] for one in found), demand.queue, used_lately=snapshot.used_lately)
        places = {holder.name: at for at, holder in enumerate(order)}
        found.sort(key=lambda one: places[one[0].name])
    return kinds


def given_back(snapshot, victims, fit):
    """Those of the victims who have to go, each tried by itself, the last one first."""
    kept = victims[-1:]
    for victim in reversed(victims[:-1]):
        snapshot.add(victim.holder)
        if not fit():
            snapshot.remove(victim.holder)
            kept.append(victim)
    return kept


def tried(snapshot, demand):
    """The victims by the classical rules, with everybody tried who is a candidate, whether or not any attempt may."""
    node, policy, kinds = snapshot.queue(demand.queue), snapshot.policy(demand.queue), scanned(snapshot, demand)
    order = sorted((*kinds["hierarchical"], *kinds["by_priority"], *kinds["own"]), key=lambda one: not one[0].evicted)
    under = all(node.usage.get(what, 0) < node.nominal(what) for what in demand.contested)
    attempts = (True, False)
    if not (kinds["hierarchical"] or kinds["by_priority"]) or not (policy.while_borrowing or under):
        attempts = (True,)
    elif not policy.while_borrowing and not kinds["hierarchical"]:
        attempts = (False, True)
    for borrowing in attempts:

        def fit(borrowing=borrowing):
            return fits(snapshot, demand, borrowing=borrowing)

        victims = []
        with snapshot.trial():
            for holder, claim, common in order:
                way = snapshot.queue(holder.queue).path
                way = way[: way.index(common)] if common is not None else ()
                if borrowing and claim is PreemptionVariant.PRIORITY_WITHOUT_BORROWING:
                    continue
                if not all(step.borrows_any(demand.contested) for step in way):
                    continue
                snapshot.remove(holder)
                victims.append(Victim(holder, REASONS[claim]))
                if fit():
                    return given_back(snapshot, victims, fit)
    return []


@unhurried
@given(moved_contests(), st.lists(st.integers(1, 12), min_size=2, max_size=6))
def test_the_victims_for_one_amount_after_the_other_are_those_for_each_by_itself(contest, amounts):
    snapshot, demand = contest
    known = {}
    for amount in amounts:
        more = msgspec.structs.replace(demand, usage=dict.fromkeys(demand.usage, amount))
        assert classical_victims(snapshot, more, known=known) == classical_victims(snapshot, more)


@unhurried
@given(moved_contests())
def test_the_candidates_are_those_of_a_plain_scan_in_the_same_order(contest):
    snapshot, demand = contest
    kinds = scanned(snapshot, demand)
    found = find_candidates(snapshot, demand)
    for kind, expected in kinds.items():
        assert [(one.holder, one.claim, one.common) for one in getattr(found, kind)] == expected
    classical = PreemptionRules()
    assert classical.has_candidates(snapshot, demand) == any(kinds.values())
    node, policy = snapshot.queue(demand.queue), snapshot.policy(demand.queue)
    fair = named(snapshot, demand, node, policy.within)
    for queue in node.root().leaves():
        if queue is not node and queue.borrows_any(demand.contested):
            fair += named(snapshot, demand, queue, policy.reclaim)
    assert fair_candidates(snapshot, demand) == fair
    assert PreemptionRules(fair=True).has_candidates(snapshot, demand) == bool(fair)


@unhurried
@given(moved_contests())
def test_victims_are_the_same_as_when_everybody_is_tried(contest):
    snapshot, demand = contest
    snapshot.used_lately = nobody_knows  # by past use, the order is not the same whatever it was before a trial
    assert classical_victims(snapshot, demand) == tried(snapshot, demand)


@unhurried
@given(moved_contests(), st.booleans())
def test_nobody_out_of_reach_is_a_candidate_and_without_anybody_in_reach_there_are_no_victims(contest, fair):
    snapshot, demand = contest
    rules = PreemptionRules(fair=fair)
    wider = msgspec.structs.replace(demand, contested=frozenset(demand.usage))
    reach = {one.name for one in rules.within_reach(snapshot, [demand, wider])}
    for one in (demand, wider):
        if reach:
            assert {holder.name for holder in rules.candidates(snapshot, one)} <= reach
        else:
            assert rules.victims(snapshot, one) == []


GPU = ("f", "gpu")


def contest(queues, cohorts, used, wanted):
    """A queue `q0` that may take out whoever is less important, or borrows, but nobody while it borrows itself."""
    tree = QuotaTree(
        {name: (cohort, {GPU: Quota(nominal)}) for name, (cohort, nominal) in queues.items()},
        {name: (parent, {GPU: Quota(nominal)}) for name, (parent, nominal) in cohorts.items()},
    )
    snapshot = Snapshot(tree, {"q0": PreemptionPolicy(Preemptible.LOWER_PRIORITY, Preemptible.ANY)})
    for queue, amount in used.items():
        snapshot.add(AdmittedWorkload(f"in-{queue}", queue, {GPU: amount}))
    return snapshot, Demand("q0", {GPU: wanted}, frozenset((GPU,)), priority=1)


def test_who_would_have_to_borrow_takes_from_borrowers_once_its_own_are_gone():
    snapshot, demand = contest({"q0": ("c", 4), "q1": ("c", 0)}, {"c": ("", 0)}, {"q0": 3, "q1": 1}, wanted=4)
    assert {one.holder.name for one in classical_victims(snapshot, demand)} == {"in-q0", "in-q1"}
    assert len(PreemptionRules().within_reach(snapshot, [demand])) == 2


def test_what_belongs_to_its_cohort_is_taken_back_though_the_queue_itself_borrows_it():
    cohorts = {"root": ("", 0), "c": ("root", 4)}
    snapshot, demand = contest({"q0": ("c", 0), "q1": ("root", 0)}, cohorts, {"q1": 4}, wanted=2)
    assert [one.holder.name for one in classical_victims(snapshot, demand)] == ["in-q1"]
    assert len(PreemptionRules().within_reach(snapshot, [demand])) == 1


def test_nobody_is_within_reach_of_a_queue_at_its_limit_that_may_take_nobody_while_it_borrows():
    snapshot, demand = contest({"q0": ("c", 2), "q1": ("c", 2)}, {"c": ("", 0)}, {"q0": 2, "q1": 2}, wanted=1)
    snapshot.add(AdmittedWorkload("borrows", "q1", {GPU: 1}))
    snapshot.remove(snapshot.holders("q0")[0])
    snapshot.add(AdmittedWorkload("equal", "q0", {GPU: 2}, priority=1))
    assert PreemptionRules().within_reach(snapshot, [demand]) == []
    assert {one.name for one in PreemptionRules().candidates(snapshot, demand)} == {"in-q1", "borrows"}


def test_those_in_one_rank_stay_in_the_order_they_came():
    holders = QueueHolders()
    for number in range(6):
        holders.put(AdmittedWorkload(f"h{number}", "q", {}, priority=number % 2, queued_at=number))
    holders.drop("h2")
    holders.put(AdmittedWorkload("h0", "q", {}, priority=0, queued_at=9))
    preemptor = AdmittedWorkload("p", "q", {}, priority=1, queued_at=2)
    lower = holders.allowed(Preemptible.LOWER_PRIORITY, preemptor, across_queues=False)
    assert [one.name for one in lower] == ["h4", "h0"]
    newer = holders.allowed(Preemptible.LOWER_OR_NEWER_EQUAL_PRIORITY, preemptor, across_queues=False)
    assert [one.name for one in newer] == ["h3", "h4", "h5", "h0"]
    assert [one.name for one in holders.all()] == ["h1", "h3", "h4", "h5", "h0"]


@unhurried
@given(moved_contests())
def test_nobody_has_candidates_in_other_queues_who_reaches_nobody(contest):
    snapshot, demand = contest
    across = demand.priority if demand.cross_queue_priority is None else demand.cross_queue_priority
    before = PreemptionReach(snapshot).before_whom(Preemptor(demand.queue, demand.priority, across))
    for rules in (PreemptionRules(), PreemptionRules(fair=True)):
        found = [*rules.candidates(snapshot, demand), *rules.within_reach(snapshot, [demand])]
        assert demand.queued_at < before or all(one.queue == demand.queue for one in found)


OWN = AdmittedWorkload("own", "mine", {WHAT: 4}, priority=5, queued_at=10.0)
BORROWER = AdmittedWorkload("theirs", "theirs", {WHAT: 4}, priority=5, queued_at=10.0)


@pytest.mark.parametrize(
    ("holder", "within", "reclaim", "priority", "queued_at", "reaches"),
    [
        (OWN, "Any", "Any", 6, 0.0, False),  # of the same queue
        (BORROWER, "Never", "Any", 0, 99.0, True),
        (BORROWER, "LowerPriority", "LowerPriority", 5, 0.0, False),
        (BORROWER, "Never", "LowerOrNewerEqualPriority", 5, 9.0, True),
        (BORROWER, "Never", "LowerOrNewerEqualPriority", 5, 10.0, False),  # who came at the same time is not newer
        (BORROWER, "Any", "Never", 9, 0.0, False),
        (msgspec.structs.replace(BORROWER, usage={WHAT: 3}), "Never", "Any", 0, 0.0, False),  # it has that of its own
    ],
)
def test_whom_a_claimant_reaches(holder, within, reclaim, priority, queued_at, reaches):
    queues = {name: ("all", {WHAT: Quota(3)}) for name in ("mine", "theirs")}
    policy = PreemptionPolicy(Preemptible(within), Preemptible(reclaim))
    snapshot = Snapshot(QuotaTree(queues, {"all": ("", {})}), {"mine": policy})
    snapshot.add(holder)
    assert (queued_at < PreemptionReach(snapshot).before_whom(Preemptor("mine", priority, priority))) is reaches
