"""Services found by a label that they select pods by: the same as are found by asking each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tutti.cluster.services_by_label import ServicesByLabel

LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3)
STEPS = st.lists(st.tuples(st.sampled_from(["s0", "s1", "s2", "s3"]), st.one_of(st.none(), LABELS)), max_size=12)


@examples(200)
@given(STEPS, LABELS)
def test_those_that_select_a_pod_are_found_in_the_order_in_which_they_came(steps, labels):
    found, asked = ServicesByLabel(), dict[str, dict[str, str]]()
    for name, wanted in steps:
        if wanted is None:
            found.drop(name)
            asked.pop(name, None)
        else:
            found.put(name, wanted)
            asked[name] = wanted
    selecting = [one for one in asked.values() if one and one.items() <= labels.items()]
    assert list(found.selecting(labels)) == selecting
