"""What is given back by when, as columns: the same as what one gets by asking every holder."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tutti.engine.records.timers import ExpectedReleases
from tutti.quota.flavors import Queue
from tutti.quota.ledger import Holdings
from tutti.quota.tree import Quota

CPU, GPU = ("f", "cpu"), ("f", "gpu")
USAGE = st.dictionaries(st.sampled_from([CPU, GPU]), st.integers(0, 9), min_size=1)
WHO = st.sampled_from([f"w{number}" for number in range(6)])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("expect"), WHO, st.sampled_from([1.0, 2.0, 3.0, 3.0, 5.0])),
        st.tuples(st.just("forget"), WHO, st.just(0)),
        st.tuples(st.just("charge"), WHO, st.tuples(st.sampled_from("abc"), USAGE)),
        st.tuples(st.just("refund"), WHO, st.integers(0, 3)),
        st.tuples(st.just("hand over"), WHO, USAGE),
        st.tuples(st.just("ask"), WHO, st.sampled_from([1.0, 3.0, 9.0])),
        st.tuples(st.just("rest"), WHO, st.just(0)),
    ),
    max_size=40,
)


def holdings_of() -> Holdings:
    """Queues a and b of one cohort, and c by itself."""
    holdings, quotas = Holdings(), {CPU: Quota(100), GPU: Quota(100)}
    named = {"a": "all", "b": "all", "c": ""}
    holdings.respec({name: Queue(name, cohort=cohort, quotas=quotas) for name, cohort in named.items()}, {})
    return holdings


def key(who: str) -> tuple[str, str, str]:
    return ("Workload", "default", who)


def expected(holdings: Holdings, ends: dict[str, float], queue: str, at: float, *, sooner: bool) -> dict:
    total: dict[str, dict] = {}
    for who, end in ends.items():
        if end < at or (end == at and not sooner):
            for where, usage in holdings.used_by("/".join(key(who))):
                if holdings.root_of(where) == holdings.root_of(queue):
                    for what, amount in usage.items():
                        mine = total.setdefault(where, {})
                        mine[what] = mine.get(what, 0) + amount
    cleared = {where: {what: n for what, n in usage.items() if n} for where, usage in total.items()}
    return {where: usage for where, usage in cleared.items() if usage}


@given(STEPS)
def test_it_is_what_the_holders_have_that_end_by_then(steps):
    holdings, returns, ends, charged = holdings_of(), ExpectedReleases(), {}, {}
    for what, who, amount in (*steps, ("ask", "w0", 3.0)):
        name = "/".join(key(who))
        if what == "expect":
            returns.expect(key(who), amount)
            ends[who] = amount
        elif what == "forget":
            returns.forget(key(who))
            ends.pop(who, None)
        elif what == "charge":
            holdings.charge(amount[0], amount[1], name)
            charged.setdefault(who, []).append(amount)
        elif what == "refund" and charged.get(who):
            holdings.refund(*charged[who].pop(0), name)
        elif what == "hand over":
            holdings.hand_over(name, amount)
        elif what == "rest":
            returns.rest(holdings)
        elif what == "ask":
            for queue in "ac":
                for sooner in (False, True):
                    found = returns.given(holdings, queue, amount, sooner=sooner)
                    assert found == expected(holdings, ends, queue, amount, sooner=sooner)
            first = returns.first(3)
            assert [at for at, _ in first] == sorted(ends.values())[:3]
            assert all(ends[one[2]] == at for at, one in first)
    assert all(returns.end_of(key(f"w{n}")) == ends.get(f"w{n}") for n in range(6))


def test_more_than_there_is_room_for_at_first():
    holdings, returns = holdings_of(), ExpectedReleases()
    for number in range(1000):
        holdings.charge("a", {CPU: 1, GPU: 2}, "/".join(key(f"w{number}")))
        returns.expect(key(f"w{number}"), float(number))
    assert returns.given(holdings, "a", 499.0) == {"a": {CPU: 500, GPU: 1000}}
    for number in range(0, 1000, 2):
        returns.forget(key(f"w{number}"))
    assert returns.given(holdings, "b", math.inf) == {"a": {CPU: 500, GPU: 1000}}
    assert [at for at, _ in returns.first(3)] == [1.0, 3.0, 5.0]
