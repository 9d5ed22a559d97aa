"""Label keys that somebody makes up: in selectors of his pods, and on pods, one after another, beside honest pods."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from tests.engine.admission.test_throttling import throttle, world_of
from tests.engine.world import World, replaced
from tutti.api.core import Affinity
from tutti.cluster.class_book import _MANY_KEYS, _MOST_SPEC_BYTES
from tutti.cluster.classification import Classifier
from tutti.cluster.pods import PodRecord
from tutti.cluster.signatures import PodQuery

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HONEST = 200


def keeping_off(*selectors: dict[str, str], **where: Any) -> Affinity:
    terms = [{"topologyKey": "zone", "labelSelector": {"matchLabels": labels}, **where} for labels in selectors]
    return msgspec.convert({"podAntiAffinity": {REQUIRED: terms}}, Affinity)


def with_affinity(world: World, name: str, affinity: Affinity, **fields: Any) -> None:
    pod = world.pod(name, namespace="theirs", **fields)
    world.put(replaced(pod, spec=replaced(pod.spec, affinity=affinity)))


@pytest.fixture
def world() -> World:
    """Many honest pods wait, with labels that nobody reads."""
    world = World(namespaces=("default", "theirs"))
    world.node("n0", gpus=1)
    for number in range(HONEST):
        world.pod(f"honest-{number}", gpus=8 + number % 3, labels={"app": "a", "number": str(number)})
    world.run()
    return world


@pytest.fixture
def classed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often pods that wait were classed again, by namespace."""
    counts, again = Counter[str](), Classifier._again

    def counted(self: Classifier, record: PodRecord, *rest: Any) -> bool:
        counts[record.namespace] += 1
        return again(self, record, *rest)

    monkeypatch.setattr(Classifier, "_again", counted)
    return counts


def test_who_makes_up_keys_has_nobody_classed_again_who_has_none_of_them(world: World, classed: Counter[str]) -> None:
    """Each key that no selector had read had all pods that wait, of everybody, written down and compared anew."""
    for number in range(50):
        labels = {f"mine-{number}": "x"}
        with_affinity(world, f"p{number}", keeping_off(labels, {f"none-{number}": "x"}), gpus=8, labels=labels)
    assert classed["default"] == 0
    assert classed["theirs"] <= 50

    with_affinity(world, "reads", keeping_off({"app": "a"}), gpus=8)
    assert classed["default"] == HONEST
    with_affinity(world, "reads-again", keeping_off({"app": "b"}), gpus=8)
    assert classed["default"] == HONEST


def test_a_pod_is_found_by_the_labels_that_it_has_come_to_have_and_by_no_others(world: World) -> None:
    with_affinity(world, "first", keeping_off({"made-up": "x"}), gpus=8)
    honest = world.pods["default", "honest-0"]
    world.put(replaced(honest, metadata=replaced(honest.metadata, labels={"late": "x"})))
    with_affinity(world, "second", keeping_off({"late": "x"}, {"number": "0"}), gpus=8)
    pods = world.engine.state.cluster.pods
    assert pods["default", "honest-0"].pod_class.labels == {"late": "x"}
    assert pods["default", "honest-1"].pod_class.labels == {"number": "1"}
    world.run()
    assert world.replay().differences == []


def test_keys_of_pods_that_are_gone_are_forgotten_and_those_that_are_read_stay(world: World) -> None:
    """They were kept for ever: a megabyte and a half for each pod that was made and deleted."""
    with_affinity(world, "stays", keeping_off({"app": "a"}), gpus=8)
    for number in range(2 * _MANY_KEYS // 400):
        selectors = [{f"{number}-{at}": "x"} for at in range(400)]
        with_affinity(world, "comes", keeping_off(*selectors), gpus=8)
        world.delete("comes", namespace="theirs")
    book = world.engine.state.cluster.classes
    assert len(book.watched) <= _MANY_KEYS + 400
    assert "app" in book.watched
    assert world.engine.state.cluster.pods["default", "honest-0"].pod_class.labels == {"app": "a"}

    selectors = [{f"0-{at}": "x"} for at in range(400)]
    with_affinity(world, "comes", keeping_off(*selectors), gpus=8)
    assert "0-399" in book.watched  # of a spec that was seen before


def test_large_specs_of_pods_that_are_gone_are_forgotten(world: World) -> None:
    for number in range(40):
        selectors = [{f"{at}": f"{number}-" + "x" * 4096} for at in range(300)]
        with_affinity(world, "comes", keeping_off(*selectors), gpus=8)
        world.delete("comes", namespace="theirs")
    book = world.engine.state.cluster.classes
    assert sum(map(len, book._copies)) < 1.1 * _MOST_SPEC_BYTES


def test_terms_about_labels_that_honest_pods_do_not_have_are_not_looked_at_for_them(monkeypatch) -> None:
    """Pods that run may keep off those of all namespaces; each of their terms was asked about each pod that came."""
    asked, matches = Counter[str](), PodQuery.matches

    def counted(self: PodQuery, namespace: str, *more: Any) -> bool:
        asked[namespace] += 1
        return matches(self, namespace, *more)

    world = World(namespaces=("default", "theirs"))
    for number in range(4):
        world.node(f"n{number}", labels={"zone": "z"})
    for number in range(20):
        selectors = [{f"mine-{at}": f"{number}", "app": "a"} for at in range(50)]
        with_affinity(world, f"p{number}", keeping_off(*selectors, namespaceSelector={}), gpus=0)
    world.run()
    assert len(world.where("p", "theirs")) == 20
    monkeypatch.setattr(PodQuery, "matches", counted)
    world.gang("honest", 4, labels={"app": "a"})
    world.run()
    assert len(world.where("honest")) == 4
    assert asked["default"] <= 2000  # once for each term, by the code of the gang's pods


def made_up(number: int) -> list[dict[str, str]]:
    return [{f"{number}-{at}": "x"} for at in range(400)]


def test_a_throttle_goes_on_by_a_label_that_a_pod_that_is_gone_has_read_before() -> None:
    """Who deleted that pod, and made up many keys, had the label forgotten, and was held by the throttle no more."""
    world = world_of()
    with_affinity(world, "first", keeping_off({"app": "zz"}), gpus=0)
    world.throttle("Throttle", throttle(pods=1))
    world.run()
    world.delete("first", namespace="theirs")
    for number in range(2 * _MANY_KEYS // 400):
        with_affinity(world, "comes", keeping_off(*made_up(number)), gpus=0, node="n1", scheduler="other")
        world.delete("comes", namespace="theirs")
    for number in range(3):
        world.pod(f"p{number}", gpus=0, labels={"app": "x"})
    world.run()
    assert len(world.where("p")) == 1


def test_keys_of_throttles_that_are_gone_are_forgotten() -> None:
    world = world_of()
    for number in range(2 * _MANY_KEYS // 100):
        labels = {f"{number}-{at}": "x" for at in range(100)}
        selector = {"selectorTerms": [{"podSelector": {"matchLabels": labels}}]}
        world.throttle("Throttle", throttle(pods=1, selector=selector))
        world.remove_throttle("Throttle", "t", "default")
    assert len(world.engine.state.cluster.classes.watched) <= _MANY_KEYS + 100


def test_a_pod_that_gives_its_place_back_is_told_apart_by_labels_that_came_to_be_read_meanwhile(monkeypatch) -> None:
    """It was placed again where a pod had come that keeps it off, until something about it was seen anew."""
    monkeypatch.setattr(World, "_set_condition", lambda *_: None)
    world = World(namespaces=("default", "theirs"))
    world.node("n1", labels={"zone": "z"})
    world.hold_binds = True
    world.pod("p", labels={"app": "a"})
    world.run()
    with_affinity(world, "q", keeping_off({"app": "a"}, namespaceSelector={}), node="n1", scheduler="other")
    world.answer(world.pending_binds[0], "Failed")
    record = world.engine.state.cluster.pods["default", "p"]
    world.decide(1)
    assert record.pod_class.labels == {"app": "a"}
