"""Usage in the quota tree, as it is kept: what comes back, what does not depend on order, what never gets too much."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tutti.quota.flavors import Queue
from tutti.quota.ledger import Account, HandedOver, UsageLedger
from tutti.quota.snapshot import AdmittedWorkload
from tutti.quota.tree import Quota

CPU, GPU = ("f", "cpu"), ("f", "gpu")
QUOTAS = st.builds(Quota, st.integers(0, 20), st.none() | st.integers(0, 10), st.none() | st.integers(0, 10))
CHARGES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "unknown"]),
        st.sampled_from([CPU, GPU]),
        st.integers(0, 5),
        st.sampled_from(["w", "v"]),
        st.integers(1, 3),
    ),
    max_size=20,
)


@st.composite
def specs(draw):
    cohorts = {"c": ("root", {GPU: draw(QUOTAS), CPU: draw(QUOTAS)})}
    queues = {name: Queue(name, "c", quotas={CPU: draw(QUOTAS), GPU: draw(QUOTAS)}) for name in ("a", "b")}
    return queues, cohorts


def ledger_of(given_specs) -> UsageLedger:
    ledger = UsageLedger()
    ledger.rebuild(*given_specs)
    return ledger


def state(ledger: UsageLedger) -> dict:
    nodes = {**ledger.tree.queues, **ledger.tree.cohorts}
    available = {name: {what: node.available(what) for what in (CPU, GPU)} for name, node in nodes.items()}
    return available | {"used": {name: ledger.used(name) for name in ("a", "b", "unknown")}}


def charge(ledger: UsageLedger, charges) -> None:
    for queue, what, amount, who, pods in charges:
        ledger.charge(queue, {what: amount}, who, pods)


@given(specs(), CHARGES, st.randoms(use_true_random=False))
def test_charging_and_refunding_everything_in_any_order_restores_the_holdings(given_specs, charges, random):
    ledger = ledger_of(given_specs)
    before = state(ledger)
    charge(ledger, charges)
    back = list(charges)
    random.shuffle(back)
    for queue, what, amount, who, pods in back:
        ledger.refund(queue, {what: amount}, who, pods)
    assert state(ledger) == before
    assert ledger.queues() == []
    assert all(ledger.snapshot.holders(name) == [] for name in ("a", "b", "unknown"))


@given(specs(), CHARGES, st.randoms(use_true_random=False))
def test_the_order_of_charges_does_not_matter(given_specs, charges, random):
    one, other = ledger_of(given_specs), ledger_of(given_specs)
    charge(one, charges)
    shuffled = list(charges)
    random.shuffle(shuffled)
    charge(other, shuffled)
    assert state(one) == state(other)


@given(specs(), CHARGES)
def test_what_the_holders_are_listed_with_is_what_is_used(given_specs, charges):
    ledger = ledger_of(given_specs)
    charge(ledger, charges)
    for name, node in ledger.tree.queues.items():
        listed: dict = {}
        for holder in ledger.snapshot.holders(name):
            for what, amount in holder.usage.items():
                listed[what] = listed.get(what, 0) + amount
        assert {what: n for what, n in listed.items() if n} == {what: n for what, n in node.usage.items() if n}


@given(specs(), CHARGES)
def test_limits_hold_when_only_what_fits_is_charged(given_specs, charges):
    ledger = ledger_of(given_specs)
    tree = ledger.tree
    for queue, what, amount, who, pods in charges:
        if queue in tree.queues and tree.fits(queue, {what: amount * pods}):
            ledger.charge(queue, {what: amount}, who, pods)
    for name in ("a", "b"):
        node = tree.queues[name]
        for what, quota in node.quotas.items():
            used = node.usage.get(what, 0)
            assert quota.borrowing_limit is None or used <= quota.nominal + quota.borrowing_limit
            assert used <= node.potential(what)
    cohort = tree.cohorts["c"]
    for what in (CPU, GPU):
        lent = sum(max(0, child.usage.get(what, 0) - child.local.get(what, 0)) for child in cohort.children)
        assert lent == cohort.usage.get(what, 0)


@given(specs(), CHARGES)
def test_specs_may_change_at_any_time(given_specs, charges):
    ledger = ledger_of(given_specs)
    charge(ledger, charges)
    before = state(ledger)
    ledger.rebuild({}, {})
    ledger.rebuild(*given_specs)
    assert state(ledger) == before


@given(specs(), CHARGES, st.integers(1, 4))
def test_room_is_how_many_more_pods_fit(given_specs, charges, each):
    ledger = ledger_of(given_specs)
    for queue, what, amount, who, pods in charges:
        if queue in ledger.tree.queues and ledger.tree.fits(queue, {what: amount * pods}):
            ledger.charge(queue, {what: amount}, who, pods)
    room = ledger.room_for("a", {GPU: each, CPU: 1})
    assert ledger.tree.fits("a", {GPU: each * room, CPU: room})
    assert not ledger.tree.fits("a", {GPU: each * (room + 1), CPU: room + 1})


def two_trees() -> UsageLedger:
    queues = {"a": Queue("a", "c"), "b": Queue("b", "c"), "apart": Queue("apart"), "c": Queue("c")}
    return ledger_of((queues, {"c": ("", {})}))


def test_pods_that_use_no_quota_leave_no_trace():
    ledger = two_trees()
    assert ledger.room_for("a", {}) == 2**62
    ledger.charge("a", {}, "w", 2)
    ledger.refund("a", {}, "w")
    assert [holder.name for holder in ledger.snapshot.holders("a")] == ["w"]
    ledger.refund("a", {}, "w")
    assert ledger.queues() == []


def test_only_what_is_given_back_frees_quota_and_only_in_its_own_tree():
    ledger = two_trees()
    assert len(ledger.changes.take_freed()) == 3  # new specs may be more than the old
    ledger.charge("a", {GPU: 2}, "w")
    assert ledger.changes.take_freed() == []
    ledger.refund("a", {GPU: 2}, "w")
    assert ledger.changes.take_freed() == [ledger.root_of("b")]
    assert len({ledger.root_of(name) for name in ("a", "apart", "c")}) == 3  # a queue is no cohort of its name


def test_a_version_changes_with_its_own_tree_only():
    ledger = two_trees()
    before = ledger.changes.version("b"), ledger.changes.version("apart")
    ledger.charge("a", {GPU: 2}, "w")
    assert ledger.changes.version("b") != before[0]
    assert ledger.changes.version("apart") == before[1]
    ledger.rebuild({}, {})
    assert ledger.changes.version("apart") != before[1]


def test_holders_are_described_as_they_are_now():
    ledger = two_trees()
    ledger.charge("a", {GPU: 2}, "w")
    ledger.describe("w", AdmittedWorkload("", "", {}, priority=5, queued_at=1.0, reserved_at=2.0))
    ledger.describe("nobody", AdmittedWorkload("", "", {}))
    ledger.charge("a", {GPU: 1}, "w")
    (holder,) = ledger.snapshot.holders("a")
    assert (holder.name, holder.queue, holder.usage, holder.priority) == ("w", "a", {GPU: 3}, 5)


def lending(*names: str, gpus: int = 4) -> UsageLedger:
    ledger = UsageLedger()
    ledger.rebuild({name: Queue(name, "c", quotas={GPU: Quota(gpus)}) for name in names}, {})
    return ledger


def test_what_is_handed_over_is_counted_once_until_it_is_given_back():
    ledger = lending("a", "b")
    ledger.charge("b", {GPU: 1}, "victim", pods=6)
    handed = ledger.hand_over("victim", {GPU: 4})
    assert handed == [HandedOver("victim", "b", {GPU: 4})]
    ledger.charge("a", {GPU: 4}, "preemptor")
    tree = ledger.tree
    assert (tree.queues["a"].usage[GPU], tree.queues["b"].usage[GPU]) == (4, 2)
    assert ledger.used("b") == {GPU: 2}
    ledger.refund("b", {GPU: 1}, "victim", pods=3)
    assert tree.queues["b"].usage[GPU] == 2  # what was handed over goes first
    ledger.take_back(handed)
    assert tree.queues["b"].usage[GPU] == 3
    ledger.refund("b", {GPU: 1}, "victim", pods=3)
    assert ledger.used("b") == {}
    assert tree.queues["b"].usage[GPU] == 0


def test_what_one_victim_leaves_for_two_is_taken_back_by_each_for_itself():
    ledger = lending("a", "b")
    ledger.charge("b", {GPU: 1}, "victim", pods=8)
    first = ledger.hand_over("victim", {GPU: 3})
    ledger.hand_over("victim", {GPU: 3})
    assert ledger.used("b") == {GPU: 2}
    ledger.take_back(first)
    assert ledger.used("b") == {GPU: 5}
    ledger.refund("b", {GPU: 1}, "victim", pods=8)
    assert ledger.used("b") == {}


def test_who_comes_back_has_handed_nothing_over():
    ledger = lending("b")
    ledger.charge("b", {GPU: 1}, "victim", pods=2)
    handed = ledger.hand_over("victim", {GPU: 2})
    ledger.refund("b", {GPU: 1}, "victim", pods=2)
    ledger.charge("b", {GPU: 1}, "victim", pods=2)
    ledger.take_back(handed)
    assert ledger.used("b") == {GPU: 2}


def test_what_was_handed_over_is_in_the_holder_in_full_and_survives_new_specs():
    ledger = lending("b")
    ledger.charge("b", {GPU: 1}, "victim", pods=4)
    handed = [*ledger.hand_over("victim", {GPU: 2}), *ledger.hand_over("victim", {GPU: 1})]
    ((counted, whole),) = ledger.with_handed(handed)
    assert (counted.usage, whole.usage) == ({GPU: 1}, {GPU: 4})
    ((_, part),) = ledger.with_handed(handed[:1])
    assert part.usage == {GPU: 3}
    ledger.rebuild({"b": Queue("b", "", quotas={GPU: Quota(4)})}, {})
    assert ledger.tree.queues["b"].usage[GPU] == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["charge", "refund", "hand over", "take back"]), st.integers(0, 1), st.integers(1, 4)
        ),
        max_size=30,
    )
)
def test_all_that_is_in_use_is_counted_or_handed_over(steps):
    ledger, in_use = lending("a", "b"), {"v0": 0, "v1": 0}
    standing: list[list[HandedOver]] = []
    for step, number, amount in steps:
        who = f"v{number}"
        if step == "charge":
            ledger.charge("b", {GPU: 1}, who, pods=amount)
            in_use[who] += amount
        elif step == "refund" and in_use[who] >= amount:
            ledger.refund("b", {GPU: 1}, who, pods=amount)
            in_use[who] -= amount
        elif step == "hand over":
            standing.append(ledger.hand_over(who, {GPU: amount}))
        elif step == "take back" and standing:
            ledger.take_back(standing.pop(amount % len(standing)))
        counted = ledger.used("b").get(GPU, 0)
        assert ledger.tree.queues["b"].usage.get(GPU, 0) == counted
        handed = sum(one.usage.get(GPU, 0) for each in standing for one in each)
        assert sum(in_use.values()) - handed <= counted <= sum(in_use.values())
    for each in standing:
        ledger.take_back(each)
    assert ledger.used("b").get(GPU, 0) == sum(in_use.values())


@given(specs(), CHARGES, st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_several_admitted_at_once_use_what_each_charged_and_described_by_itself_would(given_specs, charges, amounts):
    at_once, one_by_one = ledger_of(given_specs), ledger_of(given_specs)
    for ledger in (at_once, one_by_one):
        charge(ledger, charges)
    likes = [AdmittedWorkload(f"new-{i}", "a", {GPU: amount}, priority=i) for i, amount in enumerate(amounts)]
    at_once.admit("a", [Account(like, {GPU: like.usage[GPU]}, pods=1, described=True) for like in likes])
    for like in likes:
        one_by_one.charge("a", like.usage, like.name)
        one_by_one.describe(like.name, like)
    assert state(at_once) == state(one_by_one)
    assert str(at_once.snapshot.holders("a")) == str(one_by_one.snapshot.holders("a"))
    for like in likes:
        at_once.refund("a", like.usage, like.name)
        assert not at_once.holds(like.name)
