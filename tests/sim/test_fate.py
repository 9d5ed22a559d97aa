"""What becomes of hollow pods."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_sim.hollow.fate import Fates, PodDefaults, duration


def pod(name="p", **annotations):
    notes = {f"sim.tutti.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {"metadata": {"name": name, "namespace": "default", "annotations": notes}}


@pytest.mark.parametrize(("text", "low", "high"), [("0", 0, 0), ("2.5", 2.5, 2.5), ("5-15", 5, 15), ("exp(0)", 0, 0)])
def test_durations_are_fixed_or_drawn(text, low, high):
    assert low <= duration(text, random.Random(1)) <= high


@pytest.mark.parametrize("text", ["", "-1", "soon", "15-5", "exp(-3)", "exp()", "nan", "1e3"])
def test_what_is_no_duration_is_refused_with_what_would_be_right(text):
    with pytest.raises(ValueError, match="must be seconds such as"):
        duration(text, random.Random(1))


def test_without_annotations_or_defaults_a_pod_starts_at_once_and_runs_for_ever():
    fate = Fates().of(pod())

    assert (fate.startup, fate.run, fate.hangs) == (0, None, False)


def test_annotations_come_before_defaults():
    defaults = PodDefaults(startup_seconds="1", run_seconds="10", fail_probability=1.0, exit_code=7)

    assert Fates(defaults).of(pod())[:3] == (1, 10, 7)
    assert Fates(defaults).of(pod(run_seconds="3", startup_seconds="2", fail_probability="0"))[:3] == (2, 3, 0)
    assert Fates(defaults).of(pod(exit_code="0")).code == 0


def test_a_pod_that_hangs_does_not_end():
    fate = Fates().of(pod(run_seconds="1", hang_probability="1", fail_probability="1"))

    assert fate.hangs
    assert fate.run is None


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        ("run_seconds", "soon", "annotation sim.tutti.dev/run-seconds must be seconds"),
        ("fail_probability", "2", "annotation sim.tutti.dev/fail-probability must be a probability from 0 to 1"),
        ("exit_code", "256", "annotation sim.tutti.dev/exit-code must be a number from 0 to 255"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_named(annotation, value, expected):
    with pytest.raises(ValueError, match=expected):
        Fates().of(pod(**{annotation: value}))


@given(seed=st.integers(), name=st.text(min_size=1), restarts=st.integers(0, 5))
def test_the_same_seed_and_name_have_the_same_fate(seed, name, restarts):
    defaults = PodDefaults(startup_seconds="0-5", run_seconds="exp(30)", fail_probability=0.3, hang_probability=0.3)

    assert Fates(defaults, seed).of(pod(name), restarts) == Fates(defaults, seed).of(pod(name), restarts)


@given(seed=st.integers())
def test_fixing_one_thing_leaves_the_others_to_the_same_chance(seed):
    defaults = PodDefaults(startup_seconds="0-5", run_seconds="exp(30)", fail_probability=0.5)

    drawn, fixed = (Fates(defaults, seed).of(one) for one in (pod(), pod(startup_seconds="1")))

    assert drawn[1:] == fixed[1:]


def test_as_many_fail_as_the_odds_say():
    fates = Fates(PodDefaults(fail_probability=0.2, hang_probability=0.1), seed=3)

    ends = [fates.of(pod(f"p-{n}")) for n in range(2000)]

    assert 340 < sum(one.code != 0 for one in ends) < 460
    assert 150 < sum(one.hangs for one in ends) < 250
