"""Our own counter is read as the library's would be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import (
    CollectorRegistry,
    Counter,
    disable_created_metrics,
    enable_created_metrics,
    generate_latest,
)

from tutti.kube.counter import PlainCounter

VALUES = st.sampled_from(["POST", 'a"\\b', "ü", ""])


@pytest.fixture(scope="module", autouse=True)
def _as_the_operator_serves_them():
    disable_created_metrics()
    yield
    enable_created_metrics()


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
    assert generate_latest(plain) == generate_latest(known)


def test_two_of_one_name_are_refused():
    registry = CollectorRegistry()
    PlainCounter("writes", "They are written.", [], registry=registry)
    with pytest.raises(ValueError, match="Duplicated"):
        PlainCounter("writes", "They are written.", [], registry=registry)


def test_two_who_ask_for_a_series_at_once_have_the_same():
    counter = PlainCounter("writes", "They are written.", ["writer"], registry=CollectorRegistry())

    class Meanwhile(str):
        """Has somebody else ask for the series when it is first looked up."""

        __slots__ = ()
        asked = None

        def __hash__(self):
            if Meanwhile.asked is None:
                Meanwhile.asked = False
                return str.__hash__(self)
            if Meanwhile.asked is False:
                Meanwhile.asked = counter.labels("bind")
            return str.__hash__(self)

    assert counter.labels(Meanwhile("bind")) is Meanwhile.asked
