"""Lives of a cluster whose machines have cards that pods share: nothing of a card is ever promised twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.card_scenario import MACHINES, drawn_with_cards
from tests.simulation.cards import MEMORY, OF_MEMORY, PER_NODE, SLOTS
from tests.simulation.operator import CONFIGURATION
from tests.simulation.run import Outcome, play
from tests.simulation.steps import Scenario, Step
from tests.simulation.stories import gang
from tutti.api.configuration import HamiSettings
from tutti.cluster.cards.columns import CardColumns
from tutti.engine.lifecycle import binding, card_binds
from tutti.engine.records.decisions import CardLock
from tutti.kube import node_lock

SEEDS = 24
AT_ONCE = 6


def lived(scenario: Scenario) -> Outcome:
    return play(scenario, CONFIGURATION.model_copy(update={"hami": HamiSettings()}))


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_no_part_of_a_card_is_promised_twice_whatever_happens(first):
    found = {seed: lived(drawn_with_cards(seed)).violations for seed in range(first, first + AT_ONCE)}
    assert not {seed: violations for seed, violations in found.items() if violations}


def nobody_looks_behind_the_lock(patch: pytest.MonkeyPatch) -> None:
    """Whoever has locked a node binds, whatever others gave away there before, unseen."""
    patch.setattr(node_lock, "overdrawn_card", lambda *_: "")


def taken_parts_are_free(patch: pytest.MonkeyPatch) -> None:
    """What pods have of cards is free for others; behind the lock nobody would notice."""
    nobody_looks_behind_the_lock(patch)
    patch.setattr(CardColumns, "_charge", lambda *_: None)


def plugins_are_told_of_no_parts(patch: pytest.MonkeyPatch) -> None:
    """Pods are bound without saying which parts of cards they have."""
    annotations = card_binds.card_annotations

    def wrongly(*given: Any) -> tuple[dict[str, str], CardLock | None]:
        return {}, annotations(*given)[1]

    patch.setattr(binding, "card_annotations", wrongly)


def what_others_took_meanwhile_is_had(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks again before a bind whether a card that was kept is still free, nor behind the lock."""
    nobody_looks_behind_the_lock(patch)
    patch.setattr(CardColumns, "is_overdrawn", lambda *_: False)


WAITS = Scenario(
    0,
    [
        *(Step(0.0, "node", {"name": name, "gpus": PER_NODE * SLOTS, "rack": "r0"}) for name in MACHINES),
        Step(0.0, "plugins"),
        Step(0.0, "start", {"replica": "a"}),
        Step(1.0, "deaf_plugin", {"node": "n0", "seconds": 20.0}),
        Step(2.0, "rival_share", {"name": "r0", "node": "n0", "memory": 3000, "seconds": 60.0}),
        *gang("g", 3, each={"requests": {OF_MEMORY: str(MEMORY)}}),
        Step(8.0, "rival_share", {"name": "r1", "node": "n1", "memory": 3000, "seconds": 60.0}),
    ],
    heal_at=40.0,
)
"""A gang waits for the lock of one node while another scheduler gives away a card that is kept for it on the other."""


def test_what_is_given_away_while_a_gang_waits_for_its_turn_is_not_promised():
    assert lived(WAITS).violations == []


BREAKAGES = {
    nobody_looks_behind_the_lock: drawn_with_cards(11),
    taken_parts_are_free: drawn_with_cards(0),
    plugins_are_told_of_no_parts: drawn_with_cards(0),
    what_others_took_meanwhile_is_had: WAITS,
}
"""With a life of a cluster that shows each."""


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_the_simulation_finds_it(monkeypatch: pytest.MonkeyPatch, breakage):
    breakage(monkeypatch)
    assert lived(BREAKAGES[breakage]).violations
