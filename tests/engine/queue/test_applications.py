"""The turns of an application's parts: each is used up by who stood in it, and thousands of them cost little."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tutti.engine.records.applications import Applications
from tutti.engine.records.workloads import Workload

APPLICATION = ("default", "shop")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "drop", "share"]), st.integers(0, 4), st.integers(0, 2), st.sampled_from([1.0, 2.0])
    ),
    max_size=30,
)


@examples(100)
@given(STEPS)
def test_the_parts_that_wait_have_as_many_turns_as_they_are_and_stand_in_order(steps):
    book = Applications()
    parts = [Workload(("Pod", "default", f"p{number}")) for number in range(5)]
    waiting: dict[int, int] = {}
    for what, number, place, since in steps:
        part = parts[number]
        if what == "put":
            part.created = since
            book.put(part, APPLICATION, place)
            waiting[number] = place
        elif what == "drop":
            book.drop(part)
            waiting.pop(number, None)
            assert part.shared_standing is None
        if what == "share":
            book.share_out()
            stand = sorted((parts[one].standing, place) for one, place in waiting.items())
            assert [place for _, place in stand] == sorted(waiting.values())
            assert all(parts[one].standing[2] == place for one, place in waiting.items())
    assert set(book.all()) == {parts[one].key for one in waiting}
