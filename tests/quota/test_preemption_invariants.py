"""What must hold of every choice of victims."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quota.trees import contests, state, unhurried
from tutti.quota.fair_reclaim import FairSharingStrategy, fair_victims
from tutti.quota.policy import Preemptible, allows
from tutti.quota.reclaim import PreemptionReason, classical_victims, fits

BOTH = tuple(FairSharingStrategy)
WAYS = (classical_victims, fair_victims)


@pytest.mark.parametrize("choose", WAYS)
@unhurried
@given(contests())
def test_looking_for_victims_changes_nothing(choose, contest):
    snapshot, demand = contest
    before = state(snapshot)
    choose(snapshot, demand)
    assert state(snapshot) == before


@pytest.mark.parametrize("choose", WAYS)
@unhurried
@given(contests())
def test_the_demand_fits_once_its_victims_are_gone_and_no_victim_can_be_given_back(choose, contest):
    snapshot, demand = contest
    victims = choose(snapshot, demand)
    if not victims or fits(snapshot, demand, borrowing=True):
        return
    with snapshot.trial():
        for victim in victims:
            snapshot.remove(victim.holder)
        assert fits(snapshot, demand, borrowing=True)
        # whoever is preempted without borrowing being allowed may be given back only as long as nothing is borrowed
        strict = choose is classical_victims and fits(snapshot, demand, borrowing=False)
        for victim in victims:
            with snapshot.trial():
                snapshot.add(victim.holder)
                assert not fits(snapshot, demand, borrowing=not strict)


@pytest.mark.parametrize("choose", WAYS)
@unhurried
@given(contests())
def test_victims_are_those_whom_the_policy_names(choose, contest):
    snapshot, demand = contest
    policy = snapshot.policy(demand.queue)
    for holder, reason in choose(snapshot, demand):
        assert not demand.contested.isdisjoint(holder.usage)
        own = holder.queue == demand.queue
        assert own == (reason is PreemptionReason.IN_CLUSTER_QUEUE)
        assert allows(policy.within if own else policy.reclaim, demand, holder)
        assert own or snapshot.queue(holder.queue).borrows_any(demand.contested)


@pytest.mark.parametrize("choose", WAYS)
@unhurried
@given(contests(), st.sets(st.integers(0, 9)))
def test_who_is_tried_first_goes_by_the_same_right(choose, contest, places):
    snapshot, demand = contest
    policy = snapshot.policy(demand.queue)
    everybody = [holder.name for queue in snapshot.tree.queues for holder in snapshot.holders(queue)]
    victims = choose(snapshot, demand, first={name for at, name in enumerate(everybody) if at in places})
    with snapshot.trial():
        for holder, _ in victims:
            own = holder.queue == demand.queue
            assert allows(policy.within if own else policy.reclaim, demand, holder)
            assert own or snapshot.queue(holder.queue).borrows_any(demand.contested)
        for holder, _ in victims:
            snapshot.remove(holder)
        assert not victims or fits(snapshot, demand, borrowing=True)


@unhurried
@given(contests(), st.sampled_from([BOTH, BOTH[:1], BOTH[1:]]))
def test_without_leave_to_preempt_nobody_is_preempted(contest, strategies):
    snapshot, demand = contest
    if (snapshot.policy(demand.queue).within, snapshot.policy(demand.queue).reclaim) != (
        Preemptible.NEVER,
        Preemptible.NEVER,
    ):
        return
    assert classical_victims(snapshot, demand) == []
    assert fair_victims(snapshot, demand, strategies=strategies) == []


@pytest.mark.parametrize("choose", WAYS)
@unhurried
@given(contests())
def test_nobody_is_preempted_where_something_else_is_missing(choose, contest):
    snapshot, demand = contest
    assert choose(snapshot, demand, also_fits=lambda: False) == []


@unhurried
@given(contests())
def test_a_trial_undoes_whatever_was_done_in_it(contest):
    snapshot, demand = contest
    before = state(snapshot)
    with snapshot.trial():
        for queue in snapshot.tree.queues:
            for holder in snapshot.holders(queue)[::2]:
                snapshot.remove(holder)
            with snapshot.trial():
                snapshot.charge(demand.queue, demand.usage)
            snapshot.charge(demand.queue, demand.usage)
    assert state(snapshot) == before
