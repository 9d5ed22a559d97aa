"""Answers that are carried on from picture to picture, where asking anew takes long."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.views import scene
from tests.web.serving import KNOWN
from tutti.cli.views.listing import Listed
from tutti.engine.records.observations import AnyObservation, ObjectSeen, PodGone, PodSeen
from tutti.web import standing
from tutti.web.access import EVERYTHING
from tutti.web.addresses import made_page, page_address
from tutti.web.documents import PageDocument
from tutti.web.picture import Picture
from tutti.web.standing import KeptAnswers

PAGES = ("/", "/queue/vision", "/nodes", "/gangs", "/workload/vision/train-1")


class Following:
    """A cluster whose pictures are taken one after the other, each a second after the one before."""

    def __init__(self) -> None:
        self.seen: list[AnyObservation] = list(scene.told().listed.seen)
        self.kept = KeptAnswers()
        self.now = 0.0
        for one in (self.kept.open, self.kept.discreet):
            one._clock = lambda: self.now  # type: ignore[method-assign]
        self._changes: list[AnyObservation] | None = None
        self._taken = 0

    def comes(self, pod: scene.Json) -> None:
        (found,) = scene.told([pod]).listed.seen
        assert isinstance(found, PodSeen)
        self.seen = [one for one in self.seen if not (isinstance(one, PodSeen) and _key(one) == _key(found))]
        self.seen.append(found)
        self._note(found)

    def goes(self, gone: PodSeen) -> None:
        self.seen.remove(gone)
        self._note(PodGone(*_key(gone), gone.pod.metadata.uid))

    def _note(self, change: AnyObservation) -> None:
        if self._changes is not None:
            self._changes.append(change)

    def picture(self, *, anything: bool = False) -> Picture:
        self._taken += 1
        at = scene.AT + self._taken
        self.kept.follow(at, None if anything else self._changes)
        self._changes = []
        return Picture(self._taken, Listed(list(self.seen)), at, KNOWN, (), (), self.kept)

    def settled(self) -> Picture:
        """The picture after everybody has been tried once more: what is worked out is waited for."""
        if self.kept.open._anew is not None:  # of a picture before
            self.kept.open._anew.result(30)
            _ = self.picture().open
        self.now += 3600
        _ = self.picture().open
        found = self.kept.open._anew
        assert found is not None
        found.result(30)
        return self.picture()


def _key(one: PodSeen) -> tuple[str, str]:
    return one.pod.metadata.namespace, one.pod.metadata.name


def anew(one: Picture) -> Picture:
    """The same picture, with nothing carried on."""
    return Picture(one.generation, one.listed, one.at, one.known, ())


def is_of_gang(one: PodSeen) -> bool:
    return any(label.endswith("/pod-group") for label in one.pod.metadata.labels)


def members(one: Picture) -> list[tuple[str, str, int, int, int]]:
    return [(gang.namespace, gang.name, gang.members, gang.bound, gang.nodes) for gang in one.open.gangs]


def page(one: Picture, path: str) -> PageDocument:
    address = page_address(path)
    assert address is not None
    return made_page(one, address, EVERYTHING)


def waiting_gate(one: PageDocument) -> tuple[str, str]:
    gates = next(section for section in one.sections if section.id == "gates")
    (row,) = [row for row in gates.rows if row.mark == "Waits"]
    return row.key, row.cells[2][0].text


def _named(one: ObjectSeen) -> str:
    return str(one.raw["metadata"]["name"])


@pytest.fixture
def following(monkeypatch):
    monkeypatch.setattr(standing, "QUICK_SECONDS", 0.0)
    found = Following()
    yield found
    found.kept.close()


@pytest.mark.parametrize("seed", range(4))
def test_numbers_are_of_the_picture_whatever_came_and_went(following, seed):
    chance = random.Random(seed)
    _ = following.picture().open
    for step in range(12):
        # Not of gangs: for lost members quota is kept in use, of which an engine that starts knows by statuses alone.
        pods = [one for one in following.seen if isinstance(one, PodSeen) and not is_of_gang(one)]
        if chance.random() < 0.5 and pods:
            following.goes(chance.choice(pods))
        else:
            node = {"on": chance.choice(("a1", "a2", "a3")), "admitted": ("speech", "a100")}
            placed = node if chance.random() < 0.5 else {}
            following.comes(scene.pod("speech", f"new-{step}", chance.choice((0, 1, 2)), **placed))
        now = following.picture()
        fresh = anew(now).open

        assert now.open.is_late
        assert now.open.roots == fresh.roots
        assert now.open.offer == fresh.offer
        # Not phases: an engine that starts takes a gang that has lost members for one that is not bound in full yet.
        assert members(now) == members(anew(now))

    last = following.settled()
    assert [page(last, path) for path in PAGES] == [page(anew(last), path) for path in PAGES]


def test_who_comes_later_stands_in_line_until_all_are_tried(following):
    _ = following.picture().open
    following.comes(scene.pod("speech", "late", 8))
    now = following.picture()

    found = page(now, "/workload/speech/late?kind=Pod")
    gate, text = waiting_gate(found)
    assert gate == "Queue"
    assert "stands in line" in text
    assert page(following.settled(), "/workload/speech/late?kind=Pod") != found


def test_who_got_nodes_meanwhile_waits_for_nothing(following):
    was = following.picture().open
    assert [one.why for one in was.gangs if one.name == "train-2"] != [""]
    for name in ("train-2-0", "train-2-1"):
        following.comes(scene.pod("vision", name, 4, gang="train-2", on="a1", admitted=("vision", "a100")))

    now = following.picture().open

    (found,) = [one for one in now.gangs if one.name == "train-2"]
    assert (found.bound, found.why) == (found.members, "")


def test_after_what_nobody_followed_all_is_found_out_anew(following):
    _ = following.picture().open
    assert following.settled().open.decided is not None
    found = following.picture(anything=True).open
    assert found.decided is None
    assert members(following.picture()) == members(anew(following.picture()))
    assert following.settled().open.decided is not None


@pytest.fixture
def trying(monkeypatch) -> Iterator[threading.Event]:
    """Nobody is tried before this is set."""
    may, try_all = threading.Event(), standing.engine_answers

    def tried(*asked: Any) -> standing.Answers:
        assert may.wait(60)
        return try_all(*asked)

    monkeypatch.setattr(standing, "engine_answers", tried)
    yield may
    may.set()


def test_the_first_pictures_wait_for_nobody_to_be_tried_and_say_what_the_operator_has_told(following, trying):
    group = next(one for one in following.seen if isinstance(one, ObjectSeen) and _named(one) == "train-2")
    said = {"gate": "Quota", "reason": "WaitingForQuota", "message": "needs 8 nvidia.com/gpu in a100; 0 free now"}
    told = {"reasons": [said], "position": 1, "estimatedStart": "2100-01-01T00:00:00Z"}
    at = following.seen.index(group)
    following.seen[at] = ObjectSeen(group.kind, group.raw | {"status": {"pendingReason": told}})
    told_pod = scene.pod("vision", "alone", 8)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node has room"}
    told_pod["status"] = {"phase": "Pending", "conditions": [condition]}
    following.comes(told_pod)

    for _ in range(2):
        now = following.picture()
        (gang,) = [one for one in now.open.gangs if one.name == "train-2"]
        assert (gang.gate, gang.reason, gang.why) == tuple(said.values())
        line = next(one for one in page(now, "/queue/vision").sections if one.id == "waiting")
        cells = {row.cells[1][0].text: row.cells for row in line.rows}["vision/train-2"]
        assert cells[6][0].at == 4102444800.0
        assert waiting_gate(page(now, "/workload/vision/alone?kind=Pod")) == ("Placement", "no node has room")
    trying.set()
    assert following.settled().open.decided is not None


def test_a_pod_whose_condition_says_no_gate_stands_in_line_until_it_is_tried(following, trying):
    made = scene.pod("vision", "alone", 8)
    condition = {"type": "PodScheduled", "status": "False", "reason": "<b>", "message": "made up"}
    made["status"] = {"phase": "Pending", "conditions": [condition]}
    following.comes(made)
    gate, text = waiting_gate(page(following.picture(), "/workload/vision/alone?kind=Pod"))
    assert gate == "Queue"
    assert "stands in line" in text


def test_what_fails_to_be_tried_is_tried_again(following, monkeypatch):
    try_all = standing.engine_answers
    monkeypatch.setattr(standing, "engine_answers", lambda *asked: 1 / 0)
    _ = following.picture().open
    assert isinstance(following.kept.open._anew.exception(30), ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        _ = following.picture().open
    monkeypatch.setattr(standing, "engine_answers", try_all)
    assert following.settled().open.decided is not None


def test_a_picture_that_is_made_while_all_ends_is_made_to_its_end(following):
    last = following.picture()
    following.kept.close()
    assert members(last) == members(anew(last))


def test_what_takes_no_time_is_found_out_anew_each_time(following, monkeypatch):
    monkeypatch.setattr(standing, "QUICK_SECONDS", 1e9)
    assert not following.picture().open.is_late
    assert not following.picture().open.is_late
