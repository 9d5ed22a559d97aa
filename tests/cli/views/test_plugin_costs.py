"""`tutti top plugins`: what plugins take is measured on what was listed, by plugin and profile."""

from __future__ import annotations

import itertools

from rich.console import Console

from tests.engine.world import World
from tutti.cli.views.drawing import WIDE
from tutti.cli.views.plugin_costs import MOST_CLASSES, draw_costs, plugin_costs
from tutti.engine.records.plugins import Enabled
from tutti.placement.policy_file import PolicyFile, read_policy, write_policy


class Ticking:
    """A clock that goes on by a millisecond with each look, and by more while a slow plugin is asked."""

    def __init__(self):
        self.now, self._count = 0.0, itertools.count(1)

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


class Slow:
    def __init__(self, clock: Ticking):
        self._clock = clock

    def filter(self, pods, nodes, now):
        self._clock.now += 1.0
        return {}


def text(found) -> str:
    console = Console(width=160, file=None, record=True, force_terminal=False)
    with console.capture() as captured:
        console.print(draw_costs(found, WIDE))
    return captured.get()


def test_a_slow_plugin_stands_first_with_its_part_and_is_told_from_our_own():
    clock = Ticking()
    policy = read_policy(write_policy(PolicyFile(features=("cpuFree",), output=(1.0,))))
    profiles = [{"schedulerName": "tutti"}, {"schedulerName": "other"}]
    plugins = {"tutti": [Enabled("slow", Slow(clock)), Enabled("learnedScore", policy, 5)], "other": []}
    world = World(plugins=plugins, profiles=profiles)
    world.node("n1")
    world.pod("a", gpus=1)
    world.pod("b", gpus=2)
    world.pod("c", gpus=1, scheduler="other")
    found = plugin_costs(world.engine.state, clock)
    first = next(one for one in found.plugins if one.profile == "tutti")
    assert (first.plugin, first.point, first.own, first.classes) == ("slow", "filter", False, 2)
    assert first.seconds > 1.0
    assert 0.9 < first.part < 1.0
    others = {one.plugin for one in found.plugins if one.profile == "other"}
    assert "slow" not in others
    assert {"NodeResourcesFit", "TaintToleration", "NodeResourcesBalancedAllocation"} <= others
    (learned,) = [one for one in found.plugins if one.plugin == "learnedScore"]
    assert (learned.point, learned.own) == ("score", False)
    for profile in ("tutti", "other"):
        assert abs(sum(one.part for one in found.plugins if one.profile == profile) - 1) < 1e-9
    drawn = text(found)
    assert "asked about 3 classes of equal pods on 1 node" in drawn
    assert "not Tutti's own" in drawn


def test_no_more_classes_are_asked_about_than_people_wait_for_and_none_says_so():
    world = World()
    world.node("n1")
    assert text(plugin_costs(world.engine.state, Ticking())).startswith("There are no pods to ask")
    for number in range(MOST_CLASSES + 5):
        world.pod(f"p{number}", cpu=f"{number + 1}m")
    found = plugin_costs(world.engine.state, Ticking())
    assert (found.classes, found.left_out) == (MOST_CLASSES, 5)
    assert "5 more classes were not asked about" in text(found)
