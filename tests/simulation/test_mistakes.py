"""What somebody gets wrong holds up nobody else, and himself only until he mends it."""

from __future__ import annotations

import pytest

from tests.simulation.mistakes import BAD, STRAYS
from tests.simulation.run import play
from tests.simulation.steps import Step
from tests.simulation.stories import cluster, gang, story
from tests.simulation.told import bound

SPOILT = {
    "Workload": "w",
    "PodGroup": "g",
    "ClusterQueue": "cq1",
    "LocalQueue": "q1",
    "ResourceFlavor": "default",
    "Cohort": "c",
}
"""Which object of each kind is spoilt: one that the gangs of q1 cannot do without."""
ALL = [pytest.param(kind, spec, id=f"{kind}-{number}") for kind in BAD for number, spec in enumerate(BAD[kind])]
GANGS = [
    *gang("g", 2, at=4.0, queue="q1", seconds=3.0),
    *gang("w", 2, at=4.0, how="Workload", queue="q1", seconds=3.0),
]
OTHERS = gang("other", 3, at=5.0, seconds=3.0)


@pytest.mark.parametrize(("kind", "spec"), [one for one in ALL if one.values[0] in SPOILT])
def test_what_is_spoilt_holds_up_its_own_until_it_is_mended_and_nobody_else(kind: str, spec: dict[str, object]):
    steps = [*GANGS, *OTHERS]
    if kind == "Cohort":
        steps.append(Step(0.5, "put", {"kind": "Cohort", "name": "c", "spec": {}}))
    about = {"kind": kind, "name": SPOILT[kind]}
    steps += [Step(3.0, "spoil", {**about, "spec": spec}), Step(30.0, "mend", about)]
    when = bound(play(story(cluster(), steps, heal_at=40, seed=1)))
    assert max(when[f"other-{rank}"] for rank in range(3)) < 10.0  # long before anything is mended
    held_up = {"Workload": "w", "PodGroup": "g"}.get(kind, "gw")
    assert {name for name in "gw" if when[f"{name}-0"] > 30.0} == set(held_up)


@pytest.mark.parametrize(("kind", "spec"), ALL)
def test_what_is_spoilt_while_gangs_run_lets_them_end_and_those_of_no_mistake_start(kind: str, spec: dict[str, object]):
    """It stays wrong under another name, too, for good; and whoever leads dies in the middle of it."""
    steps = [*GANGS, *OTHERS, Step(6.5, "junk", {"kind": kind, "name": "junk", "spec": spec})]
    if kind in SPOILT:
        about = {"kind": kind, "name": SPOILT[kind]}
        steps += [Step(6.0, "spoil", {**about, "spec": spec}), Step(36.0, "mend", about)]
    steps += [Step(8.0, "crash", {"replica": "leader"}), *gang("late", 4, at=12.0, seconds=3.0)]
    when = bound(play(story(cluster(), steps, heal_at=40, seed=2)))
    assert max(when[f"{name}-0"] for name in ("g", "w", "other")) < 6.0
    assert when["late-0"] < 32.0  # it is back after 5.5 s at most, and waits for 15 s and one try more


@pytest.mark.parametrize("meta", STRAYS)
def test_pods_that_cannot_be_what_they_say_hold_up_nobody(meta: dict[str, dict[str, str]]):
    strays = [
        Step(3.0, "stray", {"name": f"stray-{number}", "labels": {}, "annotations": {}, **meta}) for number in range(3)
    ]
    when = bound(play(story(cluster(), GANGS, OTHERS, strays, seed=2)))
    assert max(when[f"{name}-0"] for name in ("g", "w", "other")) < 6.0


def test_a_queue_has_its_own_back_while_one_that_has_borrowed_of_it_cannot_be_read():
    """The queue that cannot be read is none of the cohort: what it has borrowed runs on, and holds up nobody."""
    about = {"kind": "ClusterQueue", "name": "cq1"}
    steps = [*gang("g", 2, queue="q1", gpus=3, seconds=30.0), *gang("own", 2, at=8.0, queue="q2", gpus=2, seconds=3.0)]
    spoilt = [Step(6.0, "spoil", {**about, "spec": BAD["ClusterQueue"][0]}), Step(20.0, "mend", about)]
    assert min(bound(play(story(cluster(), steps, seed=1)))[f"own-{rank}"] for rank in range(2)) > 30.0
    assert max(bound(play(story(cluster(), steps, spoilt, seed=1)))[f"own-{rank}"] for rank in range(2)) < 10.0
