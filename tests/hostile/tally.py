"""What a fuzzer has shown to an operator so far, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.hostile.cases import Case, shown


@dataclass
class Tally:
    """What has been shown so far.

    Attributes:
        slowest: Seconds that a turn of the engine took, or that honest pods waited for their nodes, at most.
        fields: Which fields of which kind, by kind.
        claims: How many pods in which convention.
        found: What went wrong, and the smallest object that it takes.
    """

    objects: int = 0
    slowest: float = 0.0
    fields: dict[str, set[str]] = field(default_factory=dict)
    claims: Counter[str] = field(default_factory=Counter)
    found: dict[str, str] = field(default_factory=dict)

    def count(self, cases: Sequence[Case]) -> None:
        self.objects += len(cases)
        for case in cases:
            self.fields.setdefault(case.target.name, set()).update(shown(graft.path) for graft in case.grafts)
