"""Every message that an engine of these tests has written is held to the house's form, and names no stranger (`wording.py`).

Examples on the page of reasons come from here (`handbook/said.py`), and are compared with what is said each time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test

from handbook.said import WRITTEN_TO, examples
from tests.engine.wording import Told, asking_in, faults_of, strangers_in, told_by
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import AnyDecision

_TOLD: dict[Told, list[str]] = {}
_EXAMPLES: dict[str, list[tuple[str, str]]] = {}
for (_, _reason), _example in examples().items():
    _EXAMPLES.setdefault(_example.test, []).append((_reason, _example.message))
_decide = Engine.decide


def _decide_and_note(self: Engine, now: float, **how: Any) -> list[AnyDecision]:
    decided = _decide(self, now, **how)
    found = chain(told_by(decided), asking_in(self.state))
    _TOLD.update((one, strangers_in(one, self.state)) for one in found if one not in _TOLD)
    return decided


Engine.decide = _decide_and_note  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Read what was said while a test ran, and whether that is still what the page of reasons has from it."""
    _TOLD.clear()
    yield
    if file := os.environ.get(WRITTEN_TO):  # they are chosen anew
        _keep(item, Path(file))
        return
    said = {(one.reason, one.text) for one in _TOLD}
    for example in _EXAMPLES.get(item.nodeid, ()):
        assert example in said, f"{example[0]} is said no more in these words: python -m handbook.said finds others"
    for one, strangers in _TOLD.items():
        assert faults_of(one) == [], f"{one.reason}: {one.text}"
        assert strangers == [], f"{one.namespace} is told of others, {one.reason}: {one.text}"


def _keep(item: pytest.Item, file: Path) -> None:
    """Append what was said to a file, unless it was said of random objects."""
    if is_hypothesis_test(getattr(item, "obj", None)):
        return
    with file.open("a", encoding="utf-8") as written:
        for one in _TOLD:
            if one.reason:
                line = {"gate": one.gate, "reason": one.reason, "message": one.text, "test": item.nodeid}
                written.write(json.dumps(line) + "\n")
