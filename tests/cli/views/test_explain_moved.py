"""`tutti explain` of work that is being moved: what is kept for it is free for it, as it is when the operator tries it."""

from __future__ import annotations

from tests.engine.preemption.test_consolidation import YES, big, evicted, gang_of_two, owner, two_nodes
from tests.engine.world import GPU
from tutti.cli.views.explain.command import explanation_of
from tutti.cli.views.explain.model import GateOutcome
from tutti.cli.views.listing import Listed
from tutti.cli.views.what_if import ObservedCluster

KEY = ("PodGroup", "default", "two")


def test_quota_that_is_kept_for_the_successors_of_what_is_moved_is_theirs():
    world = two_nodes()
    world.queue("cq", 16, consolidation={"maxMoves": 4})
    gang_of_two(world, annotations=YES)
    big(world)
    assert sorted(evicted(world)) == ["two-0", "two-1"]
    assert world.used("cq") == 16  # with what is kept
    for rank in (2, 3):
        world.pod(f"two-{rank}", group="two", gpus=4, owner=owner("two"), annotations=YES)

    asked = ObservedCluster(Listed(world.listed()), world.now)
    state = asked.stock().state
    before = dict(state.ledger.used("cq"))
    found = explanation_of(asked, state, KEY)

    (use,) = [one for one in found.quota if one.resource == GPU]
    assert (use.needs, use.free) == (8, 8)
    assert not [one.gate for one in found.steps if one.verdict in (GateOutcome.WAITS, GateOutcome.WOULD_WAIT)]
    assert state.ledger.used("cq") == before  # nothing of it has been given away by looking
    assert len(state.moves.plans) == 1
