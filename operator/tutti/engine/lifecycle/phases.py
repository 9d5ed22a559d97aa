"""The state machine of a workload: which phase may follow which, and the only place where that is written.

    WAITING --reserve--> RESERVED --bind--> BINDING --complete--> SCHEDULED --finish--> FINISHED
       |                    |                  |                      |                    |
       +<----- give back ---+<-----------------+                      |<----- run on ------+
       +<------------------------ start anew -------------------------+<-------------------+
       |                    +--------leave-----+----------------------+
       +<---- left -------------------------LEAVING ---- spare -----> SCHEDULED

Where admission checks have to be passed: WAITING --hold--> CHECKING --go on--> WAITING, with the quota held meanwhile;
from CHECKING it is given back, or leaves, as from RESERVED.

Beside its phase stands why a workload waits or what it waits for, its explanation. It is written here as well, so that
nobody has to look further for who says it: every other module of the engine works a reason out, and hands it over.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType

from tutti.engine.records.explanation import Explanation
from tutti.engine.records.workloads import ADMITTED, Phase, Workload


class Transition(enum.Enum):
    """What may become of a workload.

    Attributes:
        HOLD: Quota is held for it, without nodes, and admission checks are asked; or one asks for more time.
        GO_ON: All checks are passed: with the quota still held, nodes are looked for.
        RESERVE: Quota and nodes are held for all of it, until it may be bound; held on for another reason.
        BIND: Its members are being bound, or it was found bound in part.
        COMPLETE: All required members are bound, or it was found so.
        FINISH: It has ended; found so, or once more after members came that have ended, too.
        GIVE_BACK: What was reserved is given back, or what was to be.
        RUN_ON: Something of it runs still, or runs again.
        START_ANEW: Nothing of it runs any more, and it has not ended.
        LEAVE: It is taken out.
        LEAVE_ON: It was being taken out when another process wrote its status.
        SPARE: It need not leave after all.
        LEFT: The last of its members has gone.
    """

    HOLD = "hold"
    GO_ON = "go on"
    RESERVE = "reserve"
    BIND = "bind"
    COMPLETE = "complete"
    FINISH = "finish"
    GIVE_BACK = "give back"
    RUN_ON = "run on"
    START_ANEW = "start anew"
    LEAVE = "leave"
    LEAVE_ON = "leave on"
    SPARE = "spare"
    LEFT = "left"


TRANSITIONS: Mapping[Transition, tuple[tuple[Phase, ...], Phase]] = MappingProxyType(
    {
        Transition.HOLD: ((Phase.WAITING, Phase.CHECKING), Phase.CHECKING),
        Transition.GO_ON: ((Phase.CHECKING,), Phase.WAITING),
        Transition.RESERVE: ((Phase.WAITING, Phase.RESERVED), Phase.RESERVED),
        Transition.BIND: ((Phase.WAITING, Phase.RESERVED), Phase.BINDING),
        Transition.COMPLETE: ((Phase.WAITING, Phase.BINDING), Phase.SCHEDULED),
        Transition.FINISH: ((Phase.WAITING, Phase.SCHEDULED, Phase.FINISHED), Phase.FINISHED),
        Transition.GIVE_BACK: ((Phase.WAITING, Phase.CHECKING, Phase.RESERVED, Phase.BINDING), Phase.WAITING),
        Transition.RUN_ON: ((Phase.SCHEDULED, Phase.FINISHED), Phase.SCHEDULED),
        Transition.START_ANEW: ((Phase.SCHEDULED, Phase.FINISHED), Phase.WAITING),
        Transition.LEAVE: ((Phase.CHECKING, *ADMITTED), Phase.LEAVING),
        Transition.LEAVE_ON: ((Phase.WAITING,), Phase.LEAVING),
        Transition.SPARE: ((Phase.LEAVING,), Phase.SCHEDULED),
        Transition.LEFT: ((Phase.LEAVING,), Phase.WAITING),
    }
)
"""From which phases each leads to which."""


class TransitionError(ValueError):
    """A workload was to come to a phase that does not follow the one it is in: a fault of the engine's own."""


def transit(workload: Workload, transition: Transition) -> None:
    """Have a workload come to the phase that a transition leads to.

    Raises:
        TransitionError: it is in no phase from which it may; nothing has changed.
    """
    sources, target = TRANSITIONS[transition]
    if workload.phase not in sources:
        raise TransitionError(f"{workload.name} is {workload.phase}, and {transition.value} leads only from {sources}")
    workload.phase = target


def explain(workload: Workload, why: Explanation | None) -> None:
    """Have a workload say why it waits, or what it waits for; None where it waits for nothing."""
    workload.explanation = why
