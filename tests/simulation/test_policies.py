"""Throttles, limits of users, orders of queues and links, told by hand, and breakages that show in them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.simulation.policy_steps import (
    links,
    of_application,
    of_user,
    order,
    policies,
    throttle,
    throttled_gang,
    users,
)
from tests.simulation.run import play
from tests.simulation.steps import Scenario, Step
from tests.simulation.stories import cluster, story
from tests.simulation.waiting_steps import Drawn, waiting_gang
from tutti.cluster.network import NetworkState
from tutti.engine.admission import throttling, user_limits
from tutti.engine.records.throttled_pods import ThrottleBook
from tutti.quota.queue_order import QueueOrder


def told(drawn: Drawn, *more: Step, heal_at: float = 60.0) -> Scenario:
    return story(cluster(), [Step(at, do, args) for at, do, args in drawn], list(more), heal_at=heal_at)


def line(name: str, *, at: float, gpus: int, seconds: float) -> Drawn:
    """A pod that waits in the queue that has an order."""
    return waiting_gang(name, 1, at=at, how="Pod", queue="q7", gpus=gpus, seconds=seconds)


CRASHES = [Step(at, "crash", {"replica": "leader"}) for at in (6.0, 14.0, 32.0)]
THROTTLED = [
    *policies(5.0),
    *throttle(2, changes=[(20.0, 1), (40.0, 3)]),
    *throttled_gang("one", 2, at=4, seconds=12),
    *throttled_gang("two", 2, at=5, seconds=12),
    *throttled_gang("three", 1, at=6, seconds=12, how="Workload"),
]
LIMITED = [
    *policies(5.0),
    *users({"anna": 2, "bert": 3}),
    *(step for number in range(4) for step in of_user(f"a{number}", "anna", 1, at=4 + number, seconds=10)),
    *(step for number in range(3) for step in of_user(f"b{number}", "bert", 2, at=30, seconds=8)),
]
ORDERED = [
    *policies(2.0),
    *order("Smallest", 20),
    *line("first", at=4, gpus=4, seconds=8),
    *line("large", at=5, gpus=4, seconds=5),
    *(step for number in range(12) for step in line(f"small{number}", at=6 + 4 * number, gpus=1, seconds=12)),
]
LINKED = [
    *policies(5.0),
    *links(100, 200),
    *of_application("db0", "db", 2, at=4, seconds=50, rack="r0"),
    *(step for number in range(3) for step in of_application(f"web{number}", "web", 1, at=8, seconds=8, rack="r1")),
]
STORIES = {
    "a throttle": told(THROTTLED),
    "a throttle, and an operator that is killed": told(THROTTLED, *CRASHES),
    "users": told(LIMITED),
    "users, and an operator that is killed": told(LIMITED, *CRASHES),
    "an order": told(ORDERED),
    "an order, and an operator that is killed": told(ORDERED, *CRASHES),
    "links": told(LINKED),
    "links, and an operator that is killed": told(LINKED, *CRASHES),
}


@pytest.mark.parametrize("what", STORIES)
def test_policies_hold_and_everybody_comes_to_an_end(what: str):
    assert play(STORIES[what]).violations == []


def throttles_count_nobody(patch: pytest.MonkeyPatch) -> None:
    """A throttle knows of no pods but those that ask."""
    patch.setattr(ThrottleBook, "_count", lambda *_: None)
    patch.setattr(ThrottleBook, "seen_all", lambda *_: None)


def throttles_are_asked_pod_by_pod(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks a throttle."""
    patch.setattr(throttling, "throttled", lambda *_: None)


def nobody_is_limited(patch: pytest.MonkeyPatch) -> None:
    """Limits of users are not asked."""
    patch.setattr(user_limits, "limited", lambda *_: None)


def nobody_is_overdue(patch: pytest.MonkeyPatch) -> None:
    """However long somebody waits, the order stays as it is."""
    patch.setattr(QueueOrder, "is_overdue", lambda *_: False)
    found = QueueOrder.__init__

    def without(self: Any, *args: Any, **named: Any) -> None:
        found(self, *args, **named)
        object.__setattr__(self, "max_wait", math.inf)

    patch.setattr(QueueOrder, "__init__", without)


def links_take_whatever_comes(patch: pytest.MonkeyPatch) -> None:
    """Nobody is counted on a link."""
    patch.setattr(NetworkState, "usage", lambda _, places, rows: np.zeros(len(places.links), dtype=np.int64))


BREAKAGES = {
    "throttles count nobody": (throttles_count_nobody, "a throttle"),
    "throttles are not asked": (throttles_are_asked_pod_by_pod, "a throttle"),
    "limits of users are not asked": (nobody_is_limited, "users"),
    "nobody is ever overdue": (nobody_is_overdue, "an order"),
    "links take whatever comes": (links_take_whatever_comes, "links"),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_breakage_shows_in_the_story_that_is_about_it(monkeypatch: pytest.MonkeyPatch, breakage: str):
    makes, what = BREAKAGES[breakage]
    makes(monkeypatch)
    assert play(STORIES[what]).violations
