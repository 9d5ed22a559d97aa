"""`tutti explain` finds what waits suspended by the name of the Job that its user knows."""

from __future__ import annotations

import pytest

from tests.engine.held_owners import QUEUE, HeldWorld, template
from tests.engine.ingest.owners import a_world, indexed, pods
from tests.engine.provisioned import provisioned
from tests.engine.world import World
from tutti.cli.views.explain.command import explanation_of
from tutti.cli.views.explain.lookup import find_workload
from tutti.cli.views.explain.model import ExplainedWorkload, GateOutcome
from tutti.cli.views.listing import Listed
from tutti.cli.views.what_if import ObservedCluster

QUEUE_LABEL = next(iter(QUEUE))


def explained(world: World, name: str) -> ExplainedWorkload | str:
    """What is said of an object of some name by somebody who lists what there is."""
    asked = ObservedCluster(Listed(world.listed()), world.now)
    state = asked.stock().state
    key = find_workload(state, asked.listed, "default", name)
    return key if isinstance(key, str) else explanation_of(asked, state, key)


def test_a_job_without_pods_is_found_by_its_name():
    world = HeldWorld()
    world.flavor()
    world.queue("team", 2, manage="Suspend")
    world.node("n", gpus=8)
    world.job("train", 3)
    world.run()

    found = find_workload(world.engine.state, Listed(seen=()), "default", "train")

    assert found[0] == "PodGroup"
    assert world.engine.state.workloads[found].explanation.reason == "ExceedsMaxQuota"
    assert "there is no" in find_workload(world.engine.state, Listed(seen=()), "other", "train")


def test_a_misspelt_queue_of_a_suspended_job_is_told_with_the_job_to_mend():
    world = HeldWorld()
    world.flavor()
    world.queue("team", 4, manage="Suspend", local="training")
    world.queue("pods", 4, local="trainings")
    world.node("n", gpus=8)
    world.held("Job", "train", spec(3), **{QUEUE_LABEL: "trainng"})
    world.run()

    found = explained(world, "train")

    assert isinstance(found, ExplainedWorkload)
    assert found.summary == "it waits at the Queue gate: LocalQueueNotFound"
    assert [(one.what, one.then) for one in found.remedies] == [
        ("the queue that Job train names is training instead of trainng", "")
    ]


def spec(count: int, *, suspend: bool = True) -> dict[str, object]:
    return {"parallelism": count, "completions": count, "suspend": suspend, "template": template()}


def test_the_queue_of_a_gang_is_mended_where_its_owner_names_it():
    world = a_world(8)
    world.queue("team", 4, local="training")
    pods(world, world.owner("Job", "train", labels={QUEUE_LABEL: "trainng"}, spec=indexed(3)), 3)
    world.run()

    found = explained(world, "train")

    assert isinstance(found, ExplainedWorkload)
    assert [(one.what, one.then) for one in found.remedies] == [
        ("the queue that Job train names is training instead of trainng", "")
    ]


@pytest.mark.parametrize(
    ("scheduler", "suspend", "labels", "said"),
    [
        ("tutti", True, {}, "only what is in a queue with manage: Suspend is started by Tutti, which queue is not"),
        ("tutti", True, {QUEUE_LABEL: ""}, "give it the label scheduling.tutti.dev/queue-name of one"),
        (
            "",
            True,
            {},
            "name no schedulerName, so they are for default-scheduler; Tutti places those with tutti: write schedulerName",
        ),
        ("other", True, {}, "name schedulerName other; Tutti places those with tutti"),
        ("tutti", False, {}, "has no pods (yet)"),
    ],
)
def test_of_a_job_of_which_nothing_waits_it_is_told_why(scheduler, suspend, labels, said):
    world = HeldWorld()
    world.makes_pods = False
    world.flavor()
    world.queue("team", 4)
    made = spec(3, suspend=suspend)
    made["template"]["spec"]["schedulerName"] = scheduler
    world.held("Job", "train", made, **labels)
    world.run()

    assert said in explained(world, "train")


def test_after_a_provisioning_request_was_deleted_it_is_told_and_nodes_are_not_said_to_have_room():
    world = provisioned(kind="PodGroup")
    world.autoscaler.delete(world.autoscaler.names()[0])
    world.run()

    found = explained(world, "w")

    assert isinstance(found, ExplainedWorkload)
    assert found.summary == "it waits at the Checks gate"
    steps = {step.gate: step for step in found.steps}
    assert "it is gone: somebody has deleted it" in steps["Checks"].message
    assert steps["Placement"].verdict is GateOutcome.WOULD_WAIT


def test_a_job_that_waits_for_nobody_is_told_which_annotation_to_take_off():
    world = a_world(8)
    said = {"scheduling.tutti.dev/after": "nowhere"}
    pods(world, world.owner("Job", "train", labels=QUEUE, annotations=said, spec=indexed(3)), 3)
    world.run()

    found = explained(world, "train")

    assert isinstance(found, ExplainedWorkload)
    assert found.summary == "it waits for workloads"
    assert [(one.what, one.then) for one in found.remedies] == [
        ("Job train is without the annotation scheduling.tutti.dev/after", "")
    ]
