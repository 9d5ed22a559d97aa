"""Usage in the quota tree, as it is kept: what comes back, what does not depend on order, what never gets too much."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tutti.quota.flavors import Queue
from tutti.quota.ledger import Account, Handed, Holdings
from tutti.quota.snapshot import Holder
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


def holdings_of(given_specs) -> Holdings:
    holdings = Holdings()
    holdings.respec(*given_specs)
    return holdings


def state(holdings: Holdings) -> dict:
    nodes = {**holdings.tree.queues, **holdings.tree.cohorts}
    available = {name: {what: node.available(what) for what in (CPU, GPU)} for name, node in nodes.items()}
    return available | {"used": {name: holdings.used(name) for name in ("a", "b", "unknown")}}


def charge(holdings: Holdings, charges) -> None:
    for queue, what, amount, who, pods in charges:
        holdings.charge(queue, {what: amount}, who, pods)


@given(specs(), CHARGES, st.randoms(use_true_random=False))
def test_charging_and_refunding_everything_in_any_order_restores_the_holdings(given_specs, charges, random):
    holdings = holdings_of(given_specs)
    before = state(holdings)
    charge(holdings, charges)
    back = list(charges)
    random.shuffle(back)
    for queue, what, amount, who, pods in back:
        holdings.refund(queue, {what: amount}, who, pods)
    assert state(holdings) == before
    assert holdings.queues() == []
    assert all(holdings.snapshot.holders(name) == [] for name in ("a", "b", "unknown"))


@given(specs(), CHARGES, st.randoms(use_true_random=False))
def test_the_order_of_charges_does_not_matter(given_specs, charges, random):
    one, other = holdings_of(given_specs), holdings_of(given_specs)
    charge(one, charges)
    shuffled = list(charges)
    random.shuffle(shuffled)
    charge(other, shuffled)
    assert state(one) == state(other)


@given(specs(), CHARGES)
def test_what_the_holders_are_listed_with_is_what_is_used(given_specs, charges):
    holdings = holdings_of(given_specs)
    charge(holdings, charges)
    for name, node in holdings.tree.queues.items():
        listed: dict = {}
        for holder in holdings.snapshot.holders(name):
            for what, amount in holder.usage.items():
                listed[what] = listed.get(what, 0) + amount
        assert {what: n for what, n in listed.items() if n} == {what: n for what, n in node.usage.items() if n}


@given(specs(), CHARGES)
def test_limits_hold_when_only_what_fits_is_charged(given_specs, charges):
    holdings = holdings_of(given_specs)
    tree = holdings.tree
    for queue, what, amount, who, pods in charges:
        if queue in tree.queues and tree.fits(queue, {what: amount * pods}):
            holdings.charge(queue, {what: amount}, who, pods)
    for name in ("a", "b"):
        node = tree.queues[name]
        for what, quota in node.quotas.items():
            used = node.usage.get(what, 0)
            assert quota.borrowing_limit is None or used <= quota.nominal + quota.borrowing_limit
            assert used <= node.potential(what)
    cohort = tree.cohorts["c"]
    for what in (CPU, GPU):
        lent = sum(max(0, child.usage.get(what, 0) - child.local(what)) for child in cohort.children)
        assert lent == cohort.usage.get(what, 0)


@given(specs(), CHARGES)
def test_specs_may_change_at_any_time(given_specs, charges):
    holdings = holdings_of(given_specs)
    charge(holdings, charges)
    holdings.promise("v", "a", {GPU: 2})
    before = state(holdings)
    holdings.respec({}, {})
    holdings.respec(*given_specs)
    assert state(holdings) == before


@given(specs(), CHARGES)
def test_a_promise_keeps_others_off_until_it_is_released(given_specs, charges):
    holdings = holdings_of(given_specs)
    charge(holdings, charges)
    before = state(holdings)
    used = holdings.used("a")
    holdings.promise("v", "a", {GPU: 3})
    assert holdings.tree.queues["a"].usage.get(GPU, 0) == used.get(GPU, 0) + 3
    assert holdings.used("a") == used
    holdings.promise("v", "a", {GPU: 1})
    holdings.release("v")
    holdings.release("nobody")
    assert state(holdings) == before


@given(specs(), CHARGES, st.integers(1, 4))
def test_room_is_how_many_more_pods_fit(given_specs, charges, each):
    holdings = holdings_of(given_specs)
    for queue, what, amount, who, pods in charges:
        if queue in holdings.tree.queues and holdings.tree.fits(queue, {what: amount * pods}):
            holdings.charge(queue, {what: amount}, who, pods)
    room = holdings.room_for("a", {GPU: each, CPU: 1})
    assert holdings.tree.fits("a", {GPU: each * room, CPU: room})
    assert not holdings.tree.fits("a", {GPU: each * (room + 1), CPU: room + 1})


def two_trees() -> Holdings:
    queues = {"a": Queue("a", "c"), "b": Queue("b", "c"), "apart": Queue("apart"), "c": Queue("c")}
    return holdings_of((queues, {"c": ("", {})}))


def test_pods_that_use_no_quota_leave_no_trace():
    holdings = two_trees()
    assert holdings.room_for("a", {}) == 2**62
    holdings.charge("a", {}, "w", 2)
    holdings.refund("a", {}, "w")
    assert [holder.name for holder in holdings.snapshot.holders("a")] == ["w"]
    holdings.refund("a", {}, "w")
    assert holdings.queues() == []


def test_only_what_is_given_back_frees_quota_and_only_in_its_own_tree():
    holdings = two_trees()
    assert len(holdings.take_freed()) == 3  # new specs may be more than the old
    holdings.charge("a", {GPU: 2}, "w")
    assert holdings.take_freed() == []
    holdings.refund("a", {GPU: 2}, "w")
    assert holdings.take_freed() == [holdings.root_of("b")]
    assert len({holdings.root_of(name) for name in ("a", "apart", "c")}) == 3  # a queue is no cohort of its name


def test_a_version_changes_with_its_own_tree_only():
    holdings = two_trees()
    before = holdings.version("b"), holdings.version("apart")
    holdings.charge("a", {GPU: 2}, "w")
    assert holdings.version("b") != before[0]
    assert holdings.version("apart") == before[1]
    holdings.respec({}, {})
    assert holdings.version("apart") != before[1]


def test_holders_are_described_as_they_are_now():
    holdings = two_trees()
    holdings.charge("a", {GPU: 2}, "w")
    holdings.describe("w", Holder("", "", {}, priority=5, queued_at=1.0, reserved_at=2.0))
    holdings.describe("nobody", Holder("", "", {}))
    holdings.charge("a", {GPU: 1}, "w")
    (holder,) = holdings.snapshot.holders("a")
    assert (holder.name, holder.queue, holder.usage, holder.priority) == ("w", "a", {GPU: 3}, 5)


def lending(*names: str, gpus: int = 4) -> Holdings:
    holdings = Holdings()
    holdings.respec({name: Queue(name, "c", quotas={GPU: Quota(gpus)}) for name in names}, {})
    return holdings


def test_what_is_handed_over_is_counted_once_until_it_is_given_back():
    holdings = lending("a", "b")
    holdings.charge("b", {GPU: 1}, "victim", pods=6)
    handed = holdings.hand_over("victim", {GPU: 4})
    assert handed == [Handed("victim", "b", {GPU: 4})]
    holdings.charge("a", {GPU: 4}, "preemptor")
    tree = holdings.tree
    assert (tree.queues["a"].usage[GPU], tree.queues["b"].usage[GPU]) == (4, 2)
    assert holdings.used("b") == {GPU: 2}
    holdings.refund("b", {GPU: 1}, "victim", pods=3)
    assert tree.queues["b"].usage[GPU] == 2  # what was handed over goes first
    holdings.take_back(handed)
    assert tree.queues["b"].usage[GPU] == 3
    holdings.refund("b", {GPU: 1}, "victim", pods=3)
    assert holdings.used("b") == {}
    assert tree.queues["b"].usage[GPU] == 0


def test_what_one_victim_leaves_for_two_is_taken_back_by_each_for_itself():
    holdings = lending("a", "b")
    holdings.charge("b", {GPU: 1}, "victim", pods=8)
    first = holdings.hand_over("victim", {GPU: 3})
    holdings.hand_over("victim", {GPU: 3})
    assert holdings.used("b") == {GPU: 2}
    holdings.take_back(first)
    assert holdings.used("b") == {GPU: 5}
    holdings.refund("b", {GPU: 1}, "victim", pods=8)
    assert holdings.used("b") == {}


def test_who_comes_back_has_handed_nothing_over():
    holdings = lending("b")
    holdings.charge("b", {GPU: 1}, "victim", pods=2)
    handed = holdings.hand_over("victim", {GPU: 2})
    holdings.refund("b", {GPU: 1}, "victim", pods=2)
    holdings.charge("b", {GPU: 1}, "victim", pods=2)
    holdings.take_back(handed)
    assert holdings.used("b") == {GPU: 2}


def test_what_was_handed_over_is_in_the_holder_in_full_and_survives_new_specs():
    holdings = lending("b")
    holdings.charge("b", {GPU: 1}, "victim", pods=4)
    handed = [*holdings.hand_over("victim", {GPU: 2}), *holdings.hand_over("victim", {GPU: 1})]
    ((counted, whole),) = holdings.with_handed(handed)
    assert (counted.usage, whole.usage) == ({GPU: 1}, {GPU: 4})
    ((_, part),) = holdings.with_handed(handed[:1])
    assert part.usage == {GPU: 3}
    holdings.respec({"b": Queue("b", "", quotas={GPU: Quota(4)})}, {})
    assert holdings.tree.queues["b"].usage[GPU] == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["charge", "refund", "hand over", "take back"]), st.integers(0, 1), st.integers(1, 4)
        ),
        max_size=30,
    )
)
def test_all_that_is_in_use_is_counted_or_handed_over(steps):
    holdings, in_use = lending("a", "b"), {"v0": 0, "v1": 0}
    standing: list[list[Handed]] = []
    for step, number, amount in steps:
        who = f"v{number}"
        if step == "charge":
            holdings.charge("b", {GPU: 1}, who, pods=amount)
            in_use[who] += amount
        elif step == "refund" and in_use[who] >= amount:
            holdings.refund("b", {GPU: 1}, who, pods=amount)
            in_use[who] -= amount
        elif step == "hand over":
            standing.append(holdings.hand_over(who, {GPU: amount}))
        elif step == "take back" and standing:
            holdings.take_back(standing.pop(amount % len(standing)))
        counted = holdings.used("b").get(GPU, 0)
        assert holdings.tree.queues["b"].usage.get(GPU, 0) == counted
        handed = sum(one.usage.get(GPU, 0) for each in standing for one in each)
        assert sum(in_use.values()) - handed <= counted <= sum(in_use.values())
    for each in standing:
        holdings.take_back(each)
    assert holdings.used("b").get(GPU, 0) == sum(in_use.values())


@given(specs(), CHARGES, st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_several_admitted_at_once_use_what_each_charged_and_described_by_itself_would(given_specs, charges, amounts):
    at_once, one_by_one = holdings_of(given_specs), holdings_of(given_specs)
    for holdings in (at_once, one_by_one):
        charge(holdings, charges)
    likes = [Holder(f"new-{i}", "a", {GPU: amount}, priority=i) for i, amount in enumerate(amounts)]
    at_once.admit("a", [Account(like, {GPU: like.usage[GPU]}, pods=1, described=True) for like in likes])
    for like in likes:
        one_by_one.charge("a", like.usage, like.name)
        one_by_one.describe(like.name, like)
    assert state(at_once) == state(one_by_one)
    assert str(at_once.snapshot.holders("a")) == str(one_by_one.snapshot.holders("a"))
    for like in likes:
        at_once.refund("a", like.usage, like.name)
        assert not at_once.holds(like.name)
