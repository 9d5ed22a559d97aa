"""Two files of data items side by side, as a release note carries them: previous, current, difference."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tutti_bench.dataitems import NOT_APPLICABLE, DataItem

_MAIN: Final = ("Average", "Duration")
_THRESHOLD: Final = "Threshold"
_GROUPED: Final = 1000
_IDENTITY: Final = ("Name", "Metric")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure in both files; None where a file does not have it."""

    name: str
    metric: str
    bucket: str
    unit: str
    previous: float | None
    current: float | None

    @property
    def difference(self) -> float | None:
        """By what part of the previous figure the current one is larger; None where one is missing, or it was 0."""
        if self.previous is None or self.current is None or not self.previous:
            return None
        return self.current / self.previous - 1


Key = tuple[str, str, str, str]


def compared(
    old: Iterable[DataItem], new: Iterable[DataItem], *, all_buckets: bool = False, metrics: Collection[str] = ()
) -> list[Row]:
    """Return the figures of two files in the order of the new one, then what only the old one has.

    Args:
        old: The items of the previous run.
        new: The items of the current run.
        all_buckets: Whether percentiles are told too; else the average alone, or the duration.
        metrics: Which metrics are told; all where none is named.
    """
    before, after = (
        _figures((one for one in items if not metrics or one.metric in metrics), all_buckets) for items in (old, new)
    )
    keys = [*after, *(key for key in before if key not in after)]
    return [Row(name, metric, bucket, unit, before.get(key), after.get(key))
            for key in keys for name, metric, bucket, unit in [key]]  # fmt: skip


def _figures(items: Iterable[DataItem], all_buckets: bool) -> dict[Key, float]:
    return {
        (_title(one), one.metric, bucket, one.unit): one.data[bucket]
        for one in items
        for bucket in _buckets(one, all_buckets)
    }


def _title(one: DataItem) -> str:
    """The name and, in brackets, what labels it has beyond it."""
    more = {key: value for key, value in one.labels.items() if key not in _IDENTITY and value != NOT_APPLICABLE}
    said = ", ".join(f"{key}={more[key]}" for key in sorted(more))
    return f"{one.name} ({said})" if said else one.name


def _buckets(one: DataItem, all_buckets: bool) -> list[str]:
    known = [bucket for bucket in sorted(one.data) if not bucket.endswith(_THRESHOLD)]
    if all_buckets:
        return known
    return next(([bucket] for bucket in _MAIN if bucket in known), known[:1])


def written(figure: float | None) -> str:
    """Return how a figure is written: four digits that matter, or a dash for none."""
    if figure is None:
        return "-"
    if abs(figure) >= _GROUPED:
        return f"{figure:,.0f}"
    return f"{figure:.4g}"


def change(row: Row) -> str:
    """Return how a difference is written, or a dash for none."""
    return "-" if row.difference is None else f"{row.difference:+.1%}"


def markdown(rows: Sequence[Row]) -> str:
    """Return the rows as a table in Markdown."""
    lines = ["| workload | metric | previous | current | difference |", "|---|---|---:|---:|---:|"]
    for row in rows:
        figures = f"{written(row.previous)} | {written(row.current)} | {change(row)}"
        lines.append(f"| {row.name} | {row.metric} {row.bucket}, {row.unit} | {figures} |")
    return "\n".join(lines) + "\n"
