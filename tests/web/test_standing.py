"""Answers that are carried on from picture to picture, where asking anew takes long."""

from __future__ import annotations

import random

import pytest

from tests.cli.views import scene
from tests.web.serving import KNOWN
from tutti.cli.views.listing import Listed
from tutti.engine.records.observations import AnyObservation, PodGone, PodSeen
from tutti.web import picture as pictures
from tutti.web.access import EVERYTHING
from tutti.web.addresses import made_page, page_address
from tutti.web.documents import PageDocument
from tutti.web.picture import KeptAnswers, Picture

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


@pytest.fixture
def following(monkeypatch):
    monkeypatch.setattr(pictures, "QUICK_SECONDS", 0.0)
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
    (waits,) = [
        row for section in found.sections if section.id == "gates" for row in section.rows if row.mark == "Waits"
    ]
    assert waits.key == "Queue"
    assert "stands in line" in waits.cells[2][0].text
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
    assert following.picture().open.is_late
    assert not following.picture(anything=True).open.is_late


def test_what_takes_no_time_is_found_out_anew_each_time(following, monkeypatch):
    monkeypatch.setattr(pictures, "QUICK_SECONDS", 1e9)
    assert not following.picture().open.is_late
    assert not following.picture().open.is_late
