"""Taints that conditions call for, and how long pods stay under them."""

import pytest

from tutti_sim.controllers.nodetaints import NOT_READY, UNREACHABLE, settled, stays

NOW = "2026-01-01T00:00:00Z"


def node(*conditions, taints=(), **spec):
    listed = [{"type": kind, "status": status} for kind, status in conditions]
    return {"spec": {"taints": list(taints), **spec}, "status": {"conditions": listed}}


def pairs(taints):
    return [(one["key"].rpartition("/")[2], one["effect"]) for one in taints]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (("Ready", "True"), []),
        (("Ready", "False"), [("not-ready", "NoSchedule"), ("not-ready", "NoExecute")]),
        (("Ready", "Unknown"), [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]),
        (("MemoryPressure", "True"), [("memory-pressure", "NoSchedule")]),
        (("MemoryPressure", "Unknown"), []),
    ],
)
def test_a_condition_calls_for_its_taints(condition, expected):
    assert pairs(settled(node(condition), NOW)) == expected


def test_a_cordoned_node_is_tainted():
    assert pairs(settled(node(unschedulable=True), NOW)) == [("unschedulable", "NoSchedule")]


def test_taints_of_others_stay_and_ours_keep_their_time():
    ours = {"key": NOT_READY, "effect": "NoExecute", "timeAdded": "before"}
    theirs = {"key": "gpu", "effect": "NoSchedule"}

    kept = settled(node(("Ready", "False"), taints=[theirs, ours]), NOW)

    assert kept[:2] == [theirs, ours]
    assert settled(node(("Ready", "True"), taints=[theirs, ours]), NOW) == [theirs]


def tolerates(key, seconds=None):
    given = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return given if seconds is None else {**given, "tolerationSeconds": seconds}


@pytest.mark.parametrize(
    ("taints", "tolerations", "seconds"),
    [
        ([], [], None),
        ([("a", "NoSchedule")], [], None),
        ([("a", "NoExecute")], [], 0),
        ([("a", "NoExecute")], [tolerates("a")], None),
        ([("a", "NoExecute")], [tolerates("a", 30)], 30),
        ([("a", "NoExecute")], [tolerates("a", 30), tolerates("", 10)], 10),
        ([("a", "NoExecute"), ("b", "NoExecute")], [tolerates("a", 30)], 0),
        ([("a", "NoExecute"), ("b", "NoExecute")], [tolerates("a", 30), tolerates("b")], 30),
        ([(UNREACHABLE, "NoExecute")], [tolerates(UNREACHABLE, 0)], 0),
    ],
)
def test_a_pod_stays_as_long_as_its_tolerations_say(taints, tolerations, seconds):
    assert stays([{"key": key, "effect": effect} for key, effect in taints], tolerations) == seconds
