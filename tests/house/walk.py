"""What it takes to decide one queued pod: calls, functions and files of the operator, counted while it is decided."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import tutti
from tests.engine.world import World
from tutti.engine.records.decisions import Bind

PACKAGE = f"{Path(tutti.__file__).parent}/"
NODES = 20


@dataclass(frozen=True, slots=True)
class Walk:
    """What was called: functions by file and name, each with how often.

    Attributes:
        calls: By path of the file under the package, and name of the function.
    """

    calls: Counter[tuple[str, str]]

    @property
    def functions(self) -> int:
        """How many different ones."""
        return len(self.calls)

    @property
    def files(self) -> list[str]:
        """Their files, in the order in which they were first called into."""
        return list(dict.fromkeys(path for path, _ in self.calls))


def walked(act: Callable[[], object], package: str = PACKAGE) -> Walk:
    """Do something, and count the calls into a folder meanwhile; comprehensions and lambdas are no functions."""
    calls: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(package) and not code.co_name.startswith("<"):
            calls[code.co_filename.removeprefix(package), code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return Walk(calls)


def queued_pod() -> Walk:
    """Decide a pod of a queue, in a cluster of some nodes where another pod of that queue runs."""
    world = World()
    for number in range(NODES):
        world.node(f"n{number}")
    world.flavor()
    world.queue("cq", 1000)
    world.run()
    world.pod("before", queue="queue")
    world.run()
    world.pod("one", queue="queue", gpus=2)
    decided: list[object] = []
    walk = walked(lambda: decided.extend(world.engine.decide(world.now)))
    assert [one.name for one in decided if isinstance(one, Bind)] == ["one"]
    return walk
