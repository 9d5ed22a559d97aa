"""What has to be waited for besides quota and room, told by hand, and breakages that show in it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.simulation.run import play
from tests.simulation.steps import Step
from tests.simulation.stories import cluster, story
from tests.simulation.waiting_steps import Drawn, checks, follower, held_jobs, waiting_gang, window
from tutti.engine.admission import attempt
from tutti.engine.queue import predecessors
from tutti.kube import owner_writer
from tutti.quota import windows


def told(drawn: Drawn, *more: Step, heal_at: float = 60.0) -> Any:
    return story(cluster(), [Step(at, do, args) for at, do, args in drawn], list(more), heal_at=heal_at)


CRASHES = [Step(at, "crash", {"replica": "leader"}) for at in (6.0, 14.0, 32.0)]
CHECKED = told([*checks(["q4"], seconds=8, retries=1), *waiting_gang("asked", 2, at=4, how="Workload", queue="q4")])
FOLLOWED = told(follower(4, 4.5, seconds=20))
HELD = told(held_jobs([(4, 3, 30), (5, 2, 10)], drains=15), heal_at=90)
HELD_AND_CHECKED = told(
    [*checks(["q4", "q5"], seconds=4, retries=1), *held_jobs([(4, 3, 30), (5, 2, 10)], drains=25, checked=True)],
    heal_at=90,
)
KILLED = told(held_jobs([(4, 3, 30), (5, 2, 10)], drains=15), *CRASHES, heal_at=90)
OPENED = told(window(40, at=4))
STORIES = {
    "a check": CHECKED,
    "a predecessor": FOLLOWED,
    "a start": HELD,
    "a check and a start": HELD_AND_CHECKED,
    "a start, of an operator that is killed": KILLED,
    "a window": OPENED,
}


@pytest.mark.parametrize("what", STORIES)
def test_what_has_to_be_waited_for_is_waited_for_and_comes(what: str):
    assert play(STORIES[what]).violations == []


def no_check_is_asked(patch: pytest.MonkeyPatch) -> None:
    """Quota is enough to look for nodes."""
    patch.setattr(attempt.checks, "checks_ahead", lambda *_: [])


def followers_wait_for_nobody(patch: pytest.MonkeyPatch) -> None:
    """Whoever follows others starts beside them."""
    patch.setattr(predecessors, "waits_for_others", lambda *_: None)


def templates_stay_as_they_were_started(patch: pytest.MonkeyPatch) -> None:
    """The trace of a start is taken off, and what it changed is not taken back."""
    restored = owner_writer.restored

    def half(raw: Any, kind: Any, templates: Any) -> Any:
        back = restored(raw, kind, templates)
        return None if back is None else {"metadata": back["metadata"], "spec": {"suspend": True}}

    patch.setattr(owner_writer, "restored", half)


def starts_add_nothing(patch: pytest.MonkeyPatch) -> None:
    """An object is started on nodes of whatever flavor."""
    started = owner_writer.started
    patch.setattr(owner_writer, "started", lambda raw, kind, templates, _, at: started(raw, kind, templates, {}, at))


def windows_are_open(patch: pytest.MonkeyPatch) -> None:
    """The quota of a window is there before it begins."""
    patch.setattr(windows.Window, "at", lambda *_: windows.WindowState(True, math.inf))


BREAKAGES = {
    "no check is asked": (no_check_is_asked, CHECKED),
    "followers wait for nobody": (followers_wait_for_nobody, FOLLOWED),
    "templates stay as they were started": (templates_stay_as_they_were_started, HELD),
    "starts add nothing": (starts_add_nothing, HELD),
    "windows are open": (windows_are_open, OPENED),
    "no check is asked before a start": (no_check_is_asked, HELD_AND_CHECKED),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_breakage_shows_in_the_story_that_is_about_it(monkeypatch: pytest.MonkeyPatch, breakage: str):
    makes, scenario = BREAKAGES[breakage]
    makes(monkeypatch)
    assert play(scenario).violations
