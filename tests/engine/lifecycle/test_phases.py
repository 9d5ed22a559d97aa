"""The state machine of a workload: from which phase each transition may start, and where it ends."""

from __future__ import annotations

import pytest

from tutti.engine.lifecycle.phases import TRANSITIONS, Transition, TransitionError, explain, transit
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.workloads import Phase, Workload

DRAWN = {
    # docs/architecture.md, "The life of a workload"
    (Phase.WAITING, Phase.RESERVED),
    (Phase.RESERVED, Phase.WAITING),
    (Phase.RESERVED, Phase.BINDING),
    (Phase.BINDING, Phase.SCHEDULED),
    (Phase.SCHEDULED, Phase.FINISHED),
    (Phase.RESERVED, Phase.LEAVING),
    (Phase.BINDING, Phase.LEAVING),
    (Phase.SCHEDULED, Phase.LEAVING),
    (Phase.LEAVING, Phase.WAITING),
    (Phase.WAITING, Phase.CHECKING),  # ... and where admission checks have to be passed
    (Phase.CHECKING, Phase.WAITING),
    (Phase.CHECKING, Phase.LEAVING),
}
FOUND = {(Phase.WAITING, phase) for phase in (Phase.BINDING, Phase.SCHEDULED, Phase.FINISHED, Phase.LEAVING)}
"""As a process may find a workload that another has left: it begins as WAITING. What nothing holds is bound at once."""
BACK = {
    (Phase.BINDING, Phase.WAITING),  # no bind took effect within the window
    (Phase.SCHEDULED, Phase.WAITING),  # nothing of it runs any more
    (Phase.FINISHED, Phase.WAITING),  # other members have come, and none runs
    (Phase.FINISHED, Phase.SCHEDULED),  # ... and some run
    (Phase.LEAVING, Phase.SCHEDULED),  # spared: nobody waits for it to leave
}


def workload(phase: Phase) -> Workload:
    """One in a phase, reached by transitions."""
    one = Workload(("Workload", "team", "job"))
    ways = {
        Phase.WAITING: (),
        Phase.CHECKING: (Transition.HOLD,),
        Phase.RESERVED: (Transition.RESERVE,),
        Phase.BINDING: (Transition.BIND,),
        Phase.LEAVING: (Transition.LEAVE_ON,),
        Phase.SCHEDULED: (Transition.COMPLETE,),
        Phase.FINISHED: (Transition.FINISH,),
    }
    for transition in ways[phase]:
        transit(one, transition)
    return one


def test_the_transitions_are_those_that_are_drawn() -> None:
    steps = {(source, target) for sources, target in TRANSITIONS.values() for source in sources}
    assert {(source, target) for source, target in steps if source is not target} == DRAWN | FOUND | BACK


@pytest.mark.parametrize("transition", Transition)
@pytest.mark.parametrize("phase", Phase)
def test_a_transition_starts_from_its_phases_only(transition: Transition, phase: Phase) -> None:
    one = workload(phase)
    sources, target = TRANSITIONS[transition]
    if phase in sources:
        transit(one, transition)
        assert one.phase is target
        return
    with pytest.raises(TransitionError, match=f"Workload/team/job is {phase}, and {transition.value} leads only from"):
        transit(one, transition)
    assert one.phase is phase


def test_what_a_workload_waits_for_is_as_it_was_last_explained() -> None:
    one, why = workload(Phase.WAITING), Explanation(Gate.QUOTA, "WaitingForQuota", "needs 1 cpu")
    explain(one, why)
    assert one.explanation is why
    explain(one, None)
    assert one.explanation is None
