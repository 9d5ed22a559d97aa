"""Thousands of throttles of dozens of terms each, about hundreds of pods of which none is like another."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.admission.test_throttling import throttle, world_of
from tests.engine.world import World
from tutti.api.selectors import LabelSelector, LabelSelectorRequirement
from tutti.quota.throttle_terms import Term, TermsOfMany
from tutti.quota.throttles import Load

KEYS, VALUES = st.sampled_from("kl"), st.sampled_from("xyz")
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Like"])
SELECTORS = st.builds(
    LabelSelector,
    st.dictionaries(KEYS, VALUES),
    st.lists(st.builds(LabelSelectorRequirement, KEYS, OPERATORS, st.lists(VALUES, max_size=3)), max_size=3),
)
TERMS = st.lists(st.tuples(SELECTORS, st.none() | SELECTORS), max_size=3)
STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.none() | TERMS), max_size=8)
LABELS = st.dictionaries(KEYS, VALUES)


@given(STEPS, LABELS, LABELS)
def test_all_terms_at_once_match_whom_each_of_them_matches(
    steps: list[tuple[str, list[Term] | None]], spaces: dict[str, str], labels: dict[str, str]
) -> None:
    together, each = TermsOfMany[str](), dict[str, list[Term]]()
    for name, terms in steps:
        if terms is None:
            together.drop(name)
            each.pop(name, None)
        else:
            together.put(name, terms)
            each[name] = terms
    assert len(together) == len(each)
    assert together.selecting(spaces, labels) == [
        name
        for name, terms in each.items()
        if any(pods.matches(labels) and (of is None or of.matches(spaces)) for pods, of in terms)
    ]


def test_many_terms_keep_their_numbers_apart() -> None:
    together = TermsOfMany[int]()
    for name in range(300):
        together.put(name, [(LabelSelector({"k": str(name % 100)}), None)])
    for name in range(0, 300, 3):
        together.drop(name)
    together.put(0, [(LabelSelector({"k": "7"}), None)])
    assert together.selecting({}, {"k": "7"}) == [7, 107, 0]


PODS, TERMS_OF_ONE = 20, 10


def selecting(name: str, *terms: dict[str, Any], pods: int = 1000) -> dict[str, Any]:
    """A throttle of these terms, that lets some pods start."""
    raw = throttle(pods=pods, selector={"selectorTerms": [{"podSelector": one} for one in terms]})
    return raw | {"metadata": {"name": name, "uid": f"u-{name}", "namespace": "default"}}


def world_with(count: int, *, pods: int = 1000) -> World:
    """A world of so many throttles, each about all of 20 pods by the last of its terms."""
    world = world_of()
    for number in range(count):
        none = [{"matchExpressions": [{"key": "k", "operator": "In", "values": [f"{number}-{at}"]}]} for at in range(9)]
        world.throttle("Throttle", selecting(f"t{number}", *none, {}, pods=pods))
    for number in range(PODS):
        world.pod(f"p{number}", gpus=0, cpu=f"{100 + number}m", labels={"k": f"of-{number}"})
    return world


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often selectors are asked, and loads added up, from now on."""
    asked, matches, add = Counter[str](), LabelSelector.matches, Load.__add__

    def matching(self: LabelSelector, labels: dict[str, str]) -> bool:
        asked["matches"] += 1
        return matches(self, labels)

    def adding(self: Load, other: Load) -> Load:
        asked["adds"] += 1
        return add(self, other)

    monkeypatch.setattr(LabelSelector, "matches", matching)
    monkeypatch.setattr(Load, "__add__", adding)
    return asked


@pytest.mark.parametrize("count", [4, 40])
def test_pods_are_held_against_no_term_by_itself(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 pods beside 1,000 throttles of 60 terms took 24 s."""
    world = world_with(count)
    asked = counted(monkeypatch)
    world.run()
    assert len(world.where()) == PODS
    assert asked["matches"] == 0
    assert asked["adds"] <= 3 * PODS
    world.decide(2.0)
    used = [world.throttle_status("Throttle", f"t{number}")["used"]["resourceCounts"] for number in range(count)]
    assert used == [{"pod": PODS}] * count


@pytest.mark.parametrize("count", [4, 40])
def test_one_that_changes_has_the_pods_counted_for_itself_alone(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 1,000 that changed took 24 s: each pod was counted anew for each throttle."""
    world = world_with(count)
    world.run()
    asked = counted(monkeypatch)
    world.throttle("Throttle", selecting("t0", {"matchLabels": {"k": "of-3"}}))
    world.run()
    assert asked["matches"] == 0
    assert asked["adds"] <= 2 * PODS
    world.decide(2.0)
    used = [world.throttle_status("Throttle", f"t{number}")["used"]["resourceCounts"] for number in range(count)]
    assert used == [{"pod": 1}] + [{"pod": PODS}] * (count - 1)


@pytest.mark.parametrize("count", [4, 40])
def test_what_is_not_asked_for_is_not_compared(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 throttles that limit 60 resources took 16 s to let five of 1,000 pods start: each was compared four times."""
    world = world_with(count, pods=5)
    asked = counted(monkeypatch)
    world.run()
    assert len(world.where()) == 5
    assert world.why("Pod", "p19").reason == "Throttled"
    assert asked["adds"] <= 6 * PODS


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.none() | st.lists(st.sampled_from([{}, {"app": "x"}, {"app": "y"}, {"k": "z"}]), max_size=2),
        ),
        max_size=8,
    ),
    st.lists(st.sampled_from([{"app": "x"}, {"app": "y"}, {"app": "x", "k": "z"}]), min_size=1, max_size=4),
)
def test_what_changes_one_by_one_comes_to_what_a_restart_counts(
    steps: list[tuple[str, list[dict[str, str]] | None]], pods: list[dict[str, str]]
) -> None:
    world = world_of()
    there = set[str]()
    for at, (name, terms) in enumerate(steps):
        if at < len(pods):
            world.pod(f"p{at}", gpus=0, labels=pods[at])
        if terms is not None:
            world.throttle("Throttle", selecting(name, *({"matchLabels": one} for one in terms)))
            there.add(name)
        elif name in there:
            world.remove_throttle("Throttle", name, "default")
            there.remove(name)
        world.run()
    used = world.engine.state.throttles.used
    world.restart()
    world.run()
    assert world.engine.state.throttles.used == used
