"""Usage per queue: what is charged is refunded, in any order, and limits hold when only what fits is charged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tutti.quota.flavors import Queue
from tutti.quota.ledger import Ledger
from tutti.quota.tree import Quota

GPU = ("default", "gpu")
CPU = ("default", "cpu")
LIMITS = st.one_of(st.none(), st.integers(0, 8))
QUOTAS = st.fixed_dictionaries({what: st.builds(Quota, st.integers(0, 8), LIMITS, LIMITS) for what in (GPU, CPU)})
CHARGES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "d"]), st.sampled_from([GPU, CPU]), st.integers(1, 6)), max_size=12
)


@st.composite
def ledgers(draw) -> Ledger:
    queues = {
        name: Queue(name, cohort, quotas=draw(QUOTAS))
        for name, cohort in (("a", "left"), ("b", "left"), ("c", "right"), ("d", ""))
    }
    cohorts = {"left": ("root", draw(QUOTAS)), "right": ("root", draw(QUOTAS)), "root": ("", draw(QUOTAS))}
    ledger = Ledger()
    ledger.respec(queues, cohorts)
    ledger.specs = queues, cohorts
    return ledger


def state(ledger: Ledger) -> dict:
    nodes = {**ledger.tree.queues, **ledger.tree.cohorts}
    return {(name, what): node.usage.get(what, 0) for name, node in nodes.items() for what in (GPU, CPU)}


@given(ledgers(), CHARGES, st.randoms(use_true_random=False))
def test_charging_and_refunding_everything_in_any_order_restores_the_ledger(ledger, charges, random):
    before = state(ledger)
    for queue, what, amount in charges:
        ledger.charge(queue, {what: amount})
    shuffled = list(charges)
    random.shuffle(shuffled)
    for queue, what, amount in shuffled:
        ledger.refund(queue, {what: amount})
    assert state(ledger) == before
    assert ledger.usage == {}


@given(ledgers(), CHARGES, st.randoms(use_true_random=False))
def test_the_order_of_charges_does_not_matter(ledger, charges, random):
    for queue, what, amount in charges:
        ledger.charge(queue, {what: amount})
    once = state(ledger)
    for queue, what, amount in charges:
        ledger.refund(queue, {what: amount})
    random.shuffle(charges)
    for queue, what, amount in charges:
        ledger.charge(queue, {what: amount})
    assert state(ledger) == once


@given(ledgers(), CHARGES)
def test_limits_hold_when_only_what_fits_is_charged(ledger, charges):
    for queue, what, amount in charges:
        if ledger.tree.fits(queue, {what: amount}):
            ledger.charge(queue, {what: amount})
    tree = ledger.tree
    for node in tree.queues.values():
        for what, quota in node.quotas.items():
            used = node.usage.get(what, 0)
            if node.parent is None:
                assert used <= quota.nominal
            elif quota.borrowing_limit is not None:
                assert used <= quota.nominal + quota.borrowing_limit
    for what in (GPU, CPU):
        for name in ("left", "right", "root"):
            cohort = tree.cohorts[name]
            lent = sum(max(0, child.usage.get(what, 0) - child.local(what)) for child in cohort.children)
            assert cohort.usage.get(what, 0) == lent
        assert tree.cohorts["root"].usage.get(what, 0) <= tree.cohorts["root"].subtree.get(what, 0)


@given(ledgers(), CHARGES)
def test_specs_may_change_at_any_time(ledger, charges):
    for queue, what, amount in charges:
        ledger.charge(queue, {what: amount})
    before = state(ledger)
    specs = ledger.specs
    ledger.respec({}, {})
    ledger.respec(*specs)
    assert state(ledger) == before


@given(ledgers(), CHARGES, st.integers(1, 4))
def test_room_is_how_many_more_pods_fit(ledger, charges, each):
    for queue, what, amount in charges:
        if ledger.tree.fits(queue, {what: amount}):
            ledger.charge(queue, {what: amount})
    room = ledger.room_for("a", {GPU: each, CPU: 1})
    assert ledger.tree.fits("a", {GPU: each * room, CPU: room})
    assert not ledger.tree.fits("a", {GPU: each * (room + 1), CPU: room + 1})


def test_pods_that_use_nothing_are_not_limited():
    ledger = Ledger()
    ledger.respec({"a": Queue("a")}, {})
    assert ledger.room_for("a", {}) == 2**62
    ledger.charge("a", {})
    ledger.refund("a", {})
    ledger.refund("a", {})
    assert ledger.usage == {}


def test_only_what_is_given_back_wakes_others():
    ledger = Ledger()
    ledger.charge("a", {GPU: 2})
    before = ledger.freed
    ledger.undo("a", {GPU: 1})
    assert ledger.freed == before
    ledger.refund("a", {GPU: 1})
    assert ledger.freed == before + 1
