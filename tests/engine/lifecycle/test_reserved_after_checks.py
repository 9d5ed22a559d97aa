"""Who has passed its checks and has its nodes reserved need not pass them again when the operator is started anew."""

from __future__ import annotations

import pytest

from tests.engine.checked import ONE, checked, states
from tests.engine.lifecycle.test_approval import annotate
from tests.engine.provisioned import pool, progress, provisioned
from tests.engine.world import World

KINDS = pytest.mark.parametrize("kind", ["Workload", "PodGroup"])
BOTH_WAYS = pytest.mark.parametrize("backwards", [False, True], ids=["in order", "backwards"])


def reserved(kind: str) -> World:
    """All checks are Ready, and an approval is waited for with quota and nodes; both take longer than may be."""
    world = checked(gpus=2, strategy={**ONE, "placementTimeoutSeconds": 20})
    if kind == "PodGroup":
        for rank in range(2):
            world.delete(f"w-{rank}")
        world.remove_object("Workload", "w")
        world.pod_group("w", 2, queueName="queue")
        for rank in range(2):
            world.pod(f"w-{rank}", group="w")
    annotate(world, kind, "w", gate="finance")
    world.node("n1", gpus=2)
    world.run()
    world.answer_check("budget", "Ready", kind=kind, of="w")
    world.run()
    assert world.reason(kind, "w") == "WaitingForApproval"
    world.until(60)
    return world


@BOTH_WAYS
@KINDS
def test_checks_are_not_asked_again(kind, backwards):
    world = reserved(kind)
    world.restart(backwards=backwards)
    world.until(60)
    assert world.reason(kind, "w") == "WaitingForApproval"
    assert states(world, kind) == {"budget": "Ready"}
    assert world.status(kind, "w")["checksRound"] == 1
    annotate(world, kind, "w", gate="")
    world.run()
    assert len(world.where()) == 2
    assert world.used("cq") == 2
    assert not world.replay().differences


@KINDS
def test_where_its_nodes_are_gone_it_looks_for_others_with_its_quota(kind):
    world = reserved(kind)
    world.remove_node("n1")
    world.restart()
    world.run()
    assert world.used("cq") == 2
    assert states(world, kind) == {"budget": "Ready"}
    world.node("n2", gpus=2)
    world.run()
    assert world.reason(kind, "w") == "WaitingForApproval"
    world.remove_node("n2")
    world.until(21)
    assert states(world, kind) == {"budget": "Pending"}


@KINDS
def test_nodes_that_were_made_for_it_are_not_given_up_and_asked_for_anew(kind):
    world = provisioned(kind=kind)
    annotate(world, kind, "w", gate="finance")
    world.autoscaler.say("Provisioned")
    pool(world, "n1")
    world.run()
    assert world.reason(kind, "w") == "WaitingForApproval"
    before, asked = progress(world, kind), world.autoscaler.names()
    world.restart()
    world.until(60)
    assert (progress(world, kind), world.autoscaler.names()) == (before, asked)
    assert len(world.autoscaler.made) == 1
    annotate(world, kind, "w", gate="")
    world.run()
    assert len(world.where()) == 2
