"""What must always hold does so with plugins and extenders in every decision, however late or wrongly they answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.drawing import TIMES, examples
from tests.engine.histories.watched import Watched
from tests.engine.stories.test_invariants import Histories
from tests.engine.world import GPU
from tutti.engine.records.decisions import AnyDecision, AskExtender
from tutti.engine.records.observations import ExtenderAnswered
from tutti.engine.records.plugins import Enabled
from tutti.plugins import Go, Wait

KEPT_FREE, FORBIDDEN = "n4", "n3"
EXTENDERS = [
    {"urlPrefix": "http://strict", "filterVerb": "filter", "prioritizeVerb": "rank", "weight": 2},
    {"urlPrefix": "http://loose", "filterVerb": "filter", "ignorable": True, "managedResources": [{"name": GPU}]},
]


class Rules:
    """All extension points at once."""

    recheck_seconds = 7.0

    def filter(self, pods, nodes, now):
        big = pods.requests.get(GPU, 0) > 1
        return {"node(s) for small pods": np.array([big and name == KEPT_FREE for name in nodes.names], dtype=bool)}

    def score(self, pods, nodes, now):
        return np.array([len(name) + (name == "n1") for name in nodes.names], dtype=np.int64)

    def sort(self, workload):
        return 1 / (len(workload.name) - 2)  # a name of two letters is beyond it

    def permit(self, reservation, rooms, now):
        done = reservation.joins or reservation.held_seconds >= 3
        return Go() if done else Wait("let it cool", timeout_seconds=20, again_after_seconds=3)


class Foreign(Watched):
    """A world whose extenders answer late; the rule by which they do never changes."""

    hold_asks = True

    def answer_ask(self, ask: AskExtender, *, error: str = "") -> None:
        self.asks.remove(ask)
        exists = not ask.name or getattr(self.pods.get((ask.namespace, ask.name)), "metadata", None) is not None
        if not exists or (ask.name and self.pods[ask.namespace, ask.name].metadata.uid != ask.uid):
            self.tell(ExtenderAnswered(ask.ask, gone=True))
        elif error:
            self.tell(ExtenderAnswered(ask.ask, error=error))
        elif ask.verb == "prioritize":
            self.tell(ExtenderAnswered(ask.ask, scores={name: int(name[1:]) for name in ask.nodes}))
        else:
            passed = [name for name in ask.nodes if name != FORBIDDEN]
            self.tell(ExtenderAnswered(ask.ask, passed, {FORBIDDEN: "no licence"} if FORBIDDEN in ask.nodes else {}))

    def answer_asks(self) -> None:
        for ask in list(self.asks):
            self.answer_ask(ask)

    def restart(self, *, backwards: bool = False) -> None:
        self.asks.clear()
        super().restart(backwards=backwards)

    def _carry_out(self, decision: AnyDecision) -> None:
        super()._carry_out(decision)
        if isinstance(decision, AskExtender) and not self.hold_asks:
            self.answer_ask(decision)


class ForeignHistories(Histories):
    """The same histories with foreign code in them."""

    world: Foreign

    def make_world(self, **configuration: Any) -> Watched:
        return Foreign(plugins={"tutti": [Enabled("rules", Rules())]}, extenders=EXTENDERS, **configuration)

    @rule(data=st.data(), fails=st.sampled_from([False, False, True]))
    @precondition(lambda self: self.world.asks)
    def answer_ask(self, data: st.DataObject, fails: bool) -> None:
        self.world.answer_ask(data.draw(st.sampled_from(self.world.asks)), error="it broke" if fails else "")

    @rule()
    def answer_asks(self) -> None:
        self.world.answer_asks()
        self.world.decide()

    @rule(hold=st.booleans())
    def hold_asks(self, hold: bool) -> None:
        self.world.hold_asks = hold
        if not hold:
            self.world.answer_asks()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.hold_asks = False
            self.world.answer_asks()
        super().teardown()


ForeignHistories.TestCase.settings = examples(30, stateful_step_count=60, suppress_health_check=list(HealthCheck))
TestForeignHistories = pytest.mark.timeout(900 * TIMES)(ForeignHistories.TestCase)
