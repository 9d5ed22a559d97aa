"""Every message that an engine of these tests has written is held to the house's form (`wording.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine.wording import Told, faults_of, told_by
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import AnyDecision

_TOLD: dict[Told, None] = {}
_decide = Engine.decide


def _decide_and_note(self: Engine, now: float, **how: Any) -> list[AnyDecision]:
    decided = _decide(self, now, **how)
    _TOLD.update(dict.fromkeys(told_by(decided)))
    return decided


Engine.decide = _decide_and_note  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Read what was said while a test ran."""
    _TOLD.clear()
    yield
    for one in _TOLD:
        assert faults_of(one) == [], f"{one.reason}: {one.text}"
