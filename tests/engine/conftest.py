"""Every message that an engine of these tests has written is held to the house's form, and names no stranger (`wording.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine.wording import Told, faults_of, strangers_in, told_by
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import AnyDecision

_TOLD: dict[Told, list[str]] = {}
_decide = Engine.decide


def _decide_and_note(self: Engine, now: float, **how: Any) -> list[AnyDecision]:
    decided = _decide(self, now, **how)
    _TOLD.update((one, strangers_in(one, self.state)) for one in told_by(decided) if one not in _TOLD)
    return decided


Engine.decide = _decide_and_note  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Read what was said while a test ran."""
    _TOLD.clear()
    yield
    for one, strangers in _TOLD.items():
        assert faults_of(one) == [], f"{one.reason}: {one.text}"
        assert strangers == [], f"{one.namespace} is told of others, {one.reason}: {one.text}"
