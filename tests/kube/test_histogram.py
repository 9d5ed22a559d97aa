"""Our own histogram is read as the library's would be."""

import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from tutti.kube.histogram import PlainHistogram

BUCKETS = (0.005, 0.1, 1.0, 2.5, 10.0)


def told(registry):
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if "_created" not in line]


@given(st.lists(st.sampled_from([*BUCKETS, 0.0, 0.05, 7.0, 11.0, 1e9]) | st.floats(0, 20)))
def test_it_shows_what_the_librarys_own_shows(values):
    plain, known = CollectorRegistry(), CollectorRegistry()
    ours = PlainHistogram(
        "a_seconds", "It lasts.", registry=plain, buckets=BUCKETS, labels=[("writer", "bind"), ("to", 'a"\\b')]
    )
    theirs = Histogram("a_seconds", "It lasts.", ["writer", "to"], registry=known, buckets=BUCKETS)
    series = theirs.labels("bind", 'a"\\b')
    for value in values:
        ours.observe(value)
        series.observe(value)
    assert told(plain) == told(known)


def test_two_of_one_name_are_refused():
    registry = CollectorRegistry()
    PlainHistogram("a_seconds", "It lasts.", registry=registry, buckets=BUCKETS)
    with pytest.raises(ValueError, match="Duplicated"):
        PlainHistogram("a_seconds", "It lasts.", registry=registry, buckets=BUCKETS)


@pytest.fixture
def hasty():
    """Threads take turns as often as the interpreter lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_nothing_is_lost_where_several_threads_move_it():
    registry = CollectorRegistry()
    ours = PlainHistogram("a_seconds", "It lasts.", registry=registry, buckets=BUCKETS)
    together = threading.Barrier(4)

    def move():
        together.wait()
        for _ in range(25_000):
            ours.observe(1.0)

    threads = [threading.Thread(target=move) for _ in range(together.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert registry.get_sample_value("a_seconds_count") == 100_000
    assert registry.get_sample_value("a_seconds_sum") == 100_000.0
