"""Which workloads are run: by labels, as scheduler_perf's flag has it, and by a pattern of their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from tutti_bench.document import DocumentError, Scenario, Workload


@dataclass(frozen=True, slots=True)
class Filter:
    """What a workload must have, must not have, and be named like (`<scenario>/<workload>`)."""

    wanted: frozenset[str] = frozenset()
    unwanted: frozenset[str] = frozenset()
    pattern: re.Pattern[str] = re.compile("")

    @classmethod
    def parse(cls, labels: str = "", pattern: str = "") -> Self:
        """Read `performance,+short,-slow` and a regular expression.

        Raises:
            DocumentError: The pattern is no regular expression.
        """
        words = [word.strip() for word in labels.split(",") if word.strip()]
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise DocumentError(f"{pattern!r} is no regular expression: {error}") from None
        return cls(
            frozenset(word.removeprefix("+") for word in words if not word.startswith("-")),
            frozenset(word[1:] for word in words if word.startswith("-")),
            compiled,
        )

    def lets_through(self, scenario: Scenario, workload: Workload) -> bool:
        """Whether a workload is run; labels of its scenario count as its own."""
        labels = {*scenario.labels, *workload.labels}
        named = self.pattern.search(f"{scenario.name}/{workload.name}") is not None
        return named and self.wanted <= labels and not self.unwanted & labels

    def chosen(self, scenarios: Iterable[Scenario]) -> Iterator[tuple[Scenario, Workload]]:
        """Give the workloads that are run, in the order of the file."""
        for scenario in scenarios:
            for workload in scenario.workloads:
                if self.lets_through(scenario, workload):
                    yield scenario, workload
