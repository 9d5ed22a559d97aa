"""Thresholds for which what is expected of pods counts as well, by koordinator's formula, pod by pod."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.differential.load import AT, NODE, node, pod, profile, spec
from tutti.api.configuration import TuttiConfiguration
from tutti.cluster.cluster import Cluster
from tutti.cluster.expected_use import NAMES
from tutti.placement.framework import NO_FLAVOR
from tutti.placement.plugins.load_thresholds import ExpectedLoad, LoadThresholds

GIB = 1 << 30
SHAPE: dict[str, Any] = {"containers": [{"requests": {"cpu": 2000, "memory": 4 * GIB}, "limits": {}}]}


def half_away(value: float) -> int:
    return math.floor(value + 0.5)


def koordinator(used: float, recent: int, more: int, offered: float, request: float, factor: float) -> int:
    """Whole percent with so many pods since and more (load_aware.go filterNodeUsage, default_estimator.go)."""
    estimate = half_away(request * factor / 100)
    return half_away((used + estimate * (recent + more)) / offered * 100)


def state_of(*, used: dict[str, float], recent: int, bounds: dict[str, float], offered: dict[str, int], ago: float = 0):
    settings = {
        "thresholds": [{"metric": name, "above": bound, "countExpected": True} for name, bound in bounds.items()]
    }
    cluster = Cluster()
    load = cluster.nodes.load
    load.on, cluster.classes.reads_limits, load.now = True, True, AT + ago
    cluster.put_node(node(offered, offered))
    load.measure(list(NAMES), {NODE: (AT, [100 * used[name] / offered[name] for name in NAMES])})
    for number in range(recent):
        cluster.put_pod(pod(SHAPE, f"recent-{number}", started=AT + 1), keep=True)
    (plugin,) = (one for one in profile(settings).inter_pod if isinstance(one, LoadThresholds))
    return plugin.pre_filter(cluster.classes.of(spec(SHAPE)), cluster.nodes, NO_FLAVOR)


@pytest.mark.parametrize("recent", [0, 1, 7, 13, 14, 20])
@pytest.mark.parametrize(("cpu", "memory"), [(0, 0), (30_000, 100 * GIB), (39_000, 0), (0, 240 * GIB), (41_700, 0)])
def test_what_is_expected_counts_as_koordinator_counts_it(recent: int, cpu: float, memory: float):
    offered = {"cpu": 64_000, "memory": 256 * GIB}
    used, bounds = {"cpu": cpu, "memory": memory}, {"cpu": 65, "memory": 95}
    state = state_of(used=used, recent=recent, bounds=bounds, offered=offered)
    asked = {"cpu": (2000, 85), "memory": (4 * GIB, 70)}
    fits = [
        more
        for more in range(1, 60)
        if all(koordinator(used[name], recent, more, offered[name], *asked[name]) <= bounds[name] for name in NAMES)
    ]
    assert state.room(60).tolist() == [max(fits, default=0)]
    assert any(one.rows[0] for one in state.rejections()) == (not fits)


def test_old_figures_and_nodes_that_offer_nothing_rule_nobody_out():
    used, bounds = {"cpu": 60_000.0, "memory": 0.0}, {"cpu": 65}
    young = {"offered": {"cpu": 64_000, "memory": 1}, "used": used, "recent": 0, "bounds": bounds}
    assert state_of(**young).room(5).tolist() == [0]
    assert state_of(**young, ago=181).room(5).tolist() == [5]
    nothing = ExpectedLoad("cpu", 65, np.zeros(1), np.full(1, 10.0), 5.0)
    assert nothing.room(7).tolist() == [7]
    assert nothing.percent(1).tolist() == [-np.inf]


@given(st.floats(0, 1e6), st.integers(1, 1 << 40), st.sampled_from([0.0, 1.0, 17.0, 1700.0, 1e12]), st.floats(0, 99.9))
def test_as_many_have_room_as_one_by_one(used: float, offered: int, each: float, bound: float):
    one = ExpectedLoad("cpu", bound, np.array([float(offered)]), np.array([used]), each)
    room = int(one.room(40)[0])
    assert room == sum(all(one.percent(k)[0] <= bound for k in range(1, more + 1)) for more in range(1, 41))


@pytest.mark.parametrize("bad", [{"metric": "cpu", "below": 5}, {"metric": "temperature", "above": 80}])
def test_nothing_is_expected_of_other_figures(bad: dict[str, Any]):
    with pytest.raises(ValueError, match="countExpected goes with above, and with cpu or memory only"):
        TuttiConfiguration.model_validate({"profiles": [{"load": {"thresholds": [{**bad, "countExpected": True}]}}]})
