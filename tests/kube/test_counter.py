"""Our own counter is read as the library's would be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, generate_latest

from tutti.kube.counter import PlainCounter

VALUES = st.sampled_from(["POST", 'a"\\b', "ü", ""])


def told(registry):
    """What is said of it; of when a series was made, only that it was."""
    lines = generate_latest(registry).decode().splitlines()
    return [line.rpartition(" ")[0] if line.startswith("writes_created") else line for line in lines]


@given(st.lists(st.tuples(VALUES, VALUES)), st.lists(st.tuples(VALUES, VALUES)))
def test_it_shows_what_the_librarys_own_shows(shown, counted):
    plain, known = CollectorRegistry(), CollectorRegistry()
    ours = PlainCounter("writes", "They are written.", ["writer", "outcome"], registry=plain)
    theirs = Counter("writes", "They are written.", ["writer", "outcome"], registry=known)
    for values in shown:
        ours.labels(*values)
        theirs.labels(*values)
    for values in counted:
        ours.labels(*values).inc()
        theirs.labels(*values).inc()
    assert told(plain) == told(known)


def test_two_of_one_name_are_refused():
    registry = CollectorRegistry()
    PlainCounter("writes", "They are written.", [], registry=registry)
    with pytest.raises(ValueError, match="Duplicated"):
        PlainCounter("writes", "They are written.", [], registry=registry)
