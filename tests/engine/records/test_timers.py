"""Who is due, and when somebody is next: the same as looking at all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tutti.engine.records.timers import Timers, due_times
from tutti.engine.records.workloads import Workload

FIELDS = ("deadline", "alarm", "tell_at", "not_before")
SET = st.tuples(st.just("set"), st.integers(0, 4), st.sampled_from(FIELDS), st.integers(0, 20))
CLEAR = st.tuples(st.just("clear"), st.integers(0, 4), st.sampled_from(FIELDS), st.just(0))
DROP = st.tuples(st.just("drop"), st.integers(0, 4), st.just(""), st.just(0))
TURN = st.tuples(st.just("turn"), st.just(0), st.just(""), st.integers(0, 8))


@given(st.lists(st.one_of(SET, SET, CLEAR, DROP, TURN), max_size=60))
def test_who_is_due_and_when_is_what_a_look_at_all_of_them_says(steps):
    timers, now = Timers(), 1.0
    workloads = [Workload(("Workload", "default", f"w{number}")) for number in range(5)]
    known: dict[str, Workload] = {}
    for what, number, field, amount in steps:
        workload = workloads[number]
        match what:
            case "set":
                setattr(workload, field, now + amount)
                timers.add(workload)
                known[workload.name] = workload
            case "clear":
                setattr(workload, field, 0.0 if field == "not_before" else None)
            case "drop":
                timers.drop(workload.key)
                known.pop(workload.name, None)
            case _:
                now += amount
                due = timers.take_due(now)
                overdue = [w for w in known.values() if any(time <= now for time in due_times(w))]
                assert [w for w in due if w in overdue] == sorted(overdue, key=lambda one: one.key)
                for one in due:
                    for done in FIELDS[1:]:  # a deadline may stand until somebody has answered
                        if (getattr(one, done) or now + 1) <= now:
                            setattr(one, done, 0.0 if done == "not_before" else None)
                    timers.settle(one, now)
                known = {name: w for name, w in known.items() if w not in due or due_times(w)}
        ahead = [time for w in known.values() for time in due_times(w) if time > now]
        assert timers.next(now) == min(ahead, default=None)
        assert timers.next(now) == min(ahead, default=None)


def test_what_has_nothing_due_any_more_is_forgotten():
    timers = Timers()
    workload = Workload(("Workload", "default", "w"), alarm=5.0)
    timers.add(workload)
    (due,) = timers.take_due(5.0)
    due.alarm = None
    timers.settle(due, 5.0)
    assert len(timers) == 0
    assert list(timers) == []


def test_the_order_of_those_that_are_due_does_not_depend_on_who_asked_when_the_next_is():
    def due(*, asked: bool) -> list[str]:
        timers = Timers()
        first, second = (Workload(("Pod", "default", name)) for name in ("first", "second"))
        first.alarm = 5.0
        timers.add(first)
        first.alarm = None
        if asked:
            timers.next(1.0)
        for one in timers.take_due(6.0):
            timers.settle(one, 6.0)
        for one in (second, first):
            one.alarm = 7.0
            timers.add(one)
        return [one.key[2] for one in timers.take_due(8.0)]

    assert due(asked=True) == due(asked=False) == ["first", "second"]
