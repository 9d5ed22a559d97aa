"""Quotas over time: which hold when, what a tree says with others, and when those who wait start then."""

from __future__ import annotations

import copy
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quota.test_estimate import GPU, NOW, end, free, tree, waits
from tests.quota.trees import PAIRS, quotas, trees, unhurried, usages
from tutti.api.schedules import parse_schedule
from tutti.quota.estimate import estimate_starts
from tutti.quota.tree import Quota, QuotaTree
from tutti.quota.windows import QuotaCalendar, QuotaStep, TemporaryQuotas, Window, steps_ahead


@pytest.mark.parametrize(
    ("begin", "end", "now", "is_on", "until"),
    [
        # kube-throttler's are on from begin to end, both included; here another may begin where one ends
        (10, 20, 9, False, 10),
        (10, 20, 10, True, 20),
        (10, 20, 19.9, True, 20),
        (10, 20, 20, False, math.inf),
        (-math.inf, 20, -1e9, True, 20),
        (10, math.inf, 1e12, True, math.inf),
    ],
)
def test_a_window_is_on_from_its_beginning_until_its_end(begin, end, now, is_on, until):
    assert Window("w", begin, end).at(now) == (is_on, until)


@pytest.mark.parametrize(
    ("schedule", "seconds", "now", "is_on", "until"),
    [
        ("0 18 * * *", 43_200, 18 * 3600 - 1, False, 18 * 3600),
        ("0 18 * * *", 43_200, 18 * 3600, True, 30 * 3600),
        ("0 18 * * *", 43_200, 30 * 3600, False, 42 * 3600),
        ("0 18 * * *", 86_400, 18 * 3600, True, 42 * 3600),  # without a break
        ("0 18 * * *", 90_000, 42 * 3600, True, 67 * 3600),  # and where one overlaps the next
        ("0 0 29 2 *", 86_400, 0, False, 789 * 86_400),  # 1972-02-29
    ],
)
def test_a_window_that_comes_again_is_on_for_so_long_each_time(schedule, seconds, now, is_on, until):
    assert Window("w", schedule=parse_schedule(schedule), seconds=seconds).at(now) == (is_on, until)


def test_the_steps_ahead_are_the_times_at_which_anything_changes():
    """Where two are on the first one counts, so that its end shows the other, and its beginning hides it."""
    first, second = Window("first", 10, 20), Window("second", 15, 30)
    calendar = QuotaCalendar(
        {GPU: Quota(1)}, (TemporaryQuotas(first, {GPU: Quota(5)}), TemporaryQuotas(second, {GPU: Quota(7)}))
    )
    steps = [(step.at, step.quotas["q"][GPU].nominal) for step in steps_ahead({"q": calendar}, 0, 10)]
    assert steps == [(10, 5), (20, 7), (30, 1)]
    assert calendar.most(0)[GPU].nominal == 7
    assert calendar.most(20)[GPU].nominal == 7
    assert calendar.most(30)[GPU].nominal == 1
    assert [step.at for step in steps_ahead({"q": calendar}, 0, 2)] == [10, 20]


def test_what_is_usual_never_comes_back_after_a_window_without_an_end():
    calendar = QuotaCalendar({GPU: Quota(9)}, (TemporaryQuotas(Window("less", 10), {GPU: Quota(2)}),))
    assert (calendar.most(9)[GPU].nominal, calendar.most(10)[GPU].nominal) == (9, 2)


def built(of: QuotaTree, others: dict) -> QuotaTree:
    """A tree that was built with other quotas of some queues, and in which as much is used."""
    made = QuotaTree(
        {n: (q.parent.name if q.parent else "", others.get(n, q.quotas)) for n, q in of.queues.items()},
        {n: (c.parent.name if c.parent else "", c.quotas) for n, c in of.cohorts.items()},
    )
    for name, node in of.queues.items():
        made.add(name, node.usage)
    return made


def figures(of: QuotaTree) -> dict:
    return {
        (node.name, node.leaf, what): (
            node.available(what),
            node.potential(what),
            node.usage.get(what, 0),
            node.subtree.get(what, 0),
            node.lendable().get(what[1], 0),
        )
        for node in (*of.queues.values(), *of.cohorts.values())
        for what in PAIRS
    }


@unhurried
@given(trees(), st.data())
def test_a_tree_with_other_quotas_is_as_one_that_was_built_with_them_and_back_again(one, data):
    names = sorted(one.queues)
    for name in names:
        one.add(name, data.draw(usages))
    before, had = figures(one), figures(built(one, {}))
    assert before == had
    others = {name: data.draw(quotas()) for name in data.draw(st.sets(st.sampled_from(names)))}
    back = one.change_quotas(others)
    assert figures(one) == figures(built(one, others))
    more = data.draw(usages)
    one.add(names[0], more)  # what is used meanwhile stays used
    one.change_quotas(back)
    assert figures(one) == figures(built(one, {}))
    one.remove(names[0], more)
    assert figures(one) == before


def step(after: float, **gpus: int) -> QuotaStep:
    return QuotaStep(NOW + after, {name: {GPU: Quota(nominal)} for name, nominal in gpus.items()})


@pytest.mark.parametrize(
    ("used", "ends", "steps", "after"),
    # A queue of 4 GPUs on a node of 16; 6 are asked for.
    [
        (0, [], [], None),
        (0, [], [(50, 8)], 50),
        (0, [], [(50, 5), (70, 6)], 70),
        (4, [], [(50, 8)], None),  # 4 are in use, and nobody knows for how long
        (4, [], [(50, 10)], 50),
        (4, [(60, 4)], [(50, 8)], 60),
        (4, [(40, 4)], [(50, 8)], 50),
        (4, [(60, 4)], [(50, 8), (60, 4)], None),  # it is over when they end
        (4, [(60, 4)], [(50, 8), (61, 4)], 60),
        (4, [(90, 4)], [(50, 8), (60, 4), (80, 8), (85, 4), (100, 8)], 100),
        (4, [(50, 4)], [(50, 8)], 50),
    ],
)
def test_a_gang_starts_when_the_quota_of_a_window_holds_for_it(used, ends, steps, after):
    quota = tree(q=("", 4, used))
    before = copy.deepcopy(figures_of(quota))
    running = [end(*one) for one in ends]
    turns = [step(at, q=gpus) for at, gpus in steps]
    (found,) = estimate_starts(NOW, quota, free(16 - used), running, [waits(6)], strict=True, steps=turns)
    assert (None if found is None else found - NOW) == after
    assert figures_of(quota) == before


def figures_of(quota: QuotaTree) -> dict:
    return {n: (q.available(GPU), q.quotas, dict(q.usage)) for n, q in quota.queues.items()}


def test_those_behind_start_in_a_window_that_others_leave_room_in():
    """Of 8 from 50 on, the first has 6 for 30 seconds; the second wants 4 and starts when it has ended."""
    line = [waits(6, seconds=30), waits(4), waits(2)]
    found = estimate_starts(NOW, tree(q=("", 1, 0)), free(16), [], line, strict=False, steps=[step(50, q=8)])
    assert [at - NOW for at in found] == [50, 80, 50]


def test_what_another_queue_of_the_cohort_is_given_can_be_borrowed_then():
    quota = tree(q=("all", 2, 0), other=("all", 2, 0))
    (found,) = estimate_starts(NOW, quota, free(16), [], [waits(6)], strict=True, steps=[step(50, other=4)])
    assert found == NOW + 50


@unhurried
@given(
    st.integers(0, 6),
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 4)), max_size=4),
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12)), max_size=4, unique_by=lambda one: one[0]),
    st.integers(1, 10),
)
def test_it_is_the_first_moment_at_which_all_that_is_asked_for_is_free(usual, ends, steps, gpus):
    """Against looking at each second by itself."""
    used = sum(amount for _, amount in ends)
    turns = [step(at, q=nominal) for at, nominal in sorted(steps)]
    quota = tree(q=("", usual, used))
    running = [end(at, amount) for at, amount in ends]
    (found,) = estimate_starts(NOW, quota, free(10), running, [waits(gpus)], strict=True, steps=turns)

    def fits(second: int) -> bool:
        given_back = sum(amount for at, amount in ends if at <= second)
        nominal = next((n for at, n in sorted(steps, reverse=True) if at <= second), usual)
        return nominal - used + given_back >= gpus and 10 + given_back >= gpus

    assert (None if found is None else found - NOW) == next((second for second in range(14) if fits(second)), None)
