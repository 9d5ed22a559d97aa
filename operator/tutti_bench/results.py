"""What a benchmark has found: sampled throughput, data items, thresholds, and two files side by side.

Data items are the JSON that Kubernetes' perf-dash reads (`DataItems`, version v1). Throughput is sampled as
scheduler_perf does it (1.36, test/integration/scheduler_perf/util.go, throughputCollector). Whoever samples says what
the time is; nothing here looks at a clock.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from tutti.api.messages import counted
from tutti_bench.document import Selector, Workload

VERSION: Final = "v1"
NOT_APPLICABLE: Final = "not applicable"
"""Stands for a label that an item does not have, since all items of a file have the same labels."""


class DataItem(msgspec.Struct, frozen=True):
    """Figures of one metric of one workload: bucket (Average, Perc99, ...) to value, in one unit."""

    data: dict[str, float]
    unit: str
    labels: dict[str, str]

    @property
    def name(self) -> str:
        """What was measured: `<scenario>/<workload>/<namespace>`."""
        return self.labels.get("Name", "")

    @property
    def metric(self) -> str:
        """Which metric it is."""
        return self.labels.get("Metric", "")


class DataItems(msgspec.Struct, frozen=True, rename="camel"):
    """All items of a file."""

    data_items: list[DataItem]
    version: str = VERSION


class NoDataItems(ValueError):  # noqa: N818 - reads as what it is
    """A file that holds no such items; the text says which and why."""


def item(name: str, metric: str, unit: str, data: Mapping[str, float], **labels: str) -> DataItem:
    """Make an item."""
    return DataItem(dict(data), unit, {"Name": name, "Metric": metric, **labels})


def with_label(one: DataItem, key: str, value: str) -> DataItem:
    """Return an item with one more label."""
    return msgspec.structs.replace(one, labels={**one.labels, key: value})


def medians(runs: Iterable[Sequence[DataItem]]) -> list[DataItem]:
    """Return the items of several runs as one: each with the median of its figures.

    Those are the same that have the same labels and unit; where a run has several such, the first of each is one, the
    second another. A figure that only some runs have is the median of these.
    """
    alike: dict[tuple[int, str, frozenset[tuple[str, str]]], list[DataItem]] = {}
    for items in runs:
        before = Counter[tuple[str, frozenset[tuple[str, str]]]]()
        for one in items:
            what = one.unit, frozenset(one.labels.items())
            alike.setdefault((before[what], *what), []).append(one)
            before[what] += 1
    return [msgspec.structs.replace(those[0], data=_median(those)) for those in alike.values()]


def of_fewer_turns(
    found: Mapping[str, Sequence[Sequence[Sequence[DataItem]]]], names: Sequence[str], turns: int
) -> list[str]:
    """Say which medians are of fewer turns than were asked for: not all came to their end, but some did.

    Args:
        found: By scheduler, for each of the workloads, the items of each turn that came to its end.
        names: What the workloads are called.
        turns: How many each scheduler was to have.
    """
    return [
        f"medians of {name} by {scheduler} are of {counted(len(ended), 'turn')}, not {turns}: no other came to its end"
        for scheduler, workloads in found.items()
        for name, ended in zip(names, workloads, strict=True)
        if 0 < len(ended) < turns
    ]


def _median(items: Sequence[DataItem]) -> dict[str, float]:
    buckets = dict.fromkeys(bucket for one in items for bucket in one.data)
    return {bucket: statistics.median(one.data[bucket] for one in items if bucket in one.data) for bucket in buckets}


def encode(items: Sequence[DataItem]) -> str:
    """Return the file's text: keys in order, two spaces to the level, the same labels on every item."""
    keys = {key for one in items for key in one.labels}
    full = [
        msgspec.structs.replace(one, labels={key: one.labels.get(key, NOT_APPLICABLE) for key in keys}) for one in items
    ]
    plain = {"version": VERSION, "dataItems": [msgspec.to_builtins(one) for one in full]}
    encoded = msgspec.json.Encoder(order="sorted").encode(plain["dataItems"])
    text = b'{"version":"' + VERSION.encode() + b'","dataItems":' + encoded + b"}"
    return msgspec.json.format(text, indent=2).decode() + "\n"


def read_data_items(path: Path) -> list[DataItem]:
    """Read a file of items.

    Raises:
        NoDataItems: It cannot be read, or is none.
    """
    try:
        found = msgspec.json.decode(path.read_bytes(), type=DataItems)
    except OSError as error:
        raise NoDataItems(f"{path}: cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise NoDataItems(f"{path}: is no file of data items: {error}") from None
    if found.version != VERSION:
        raise NoDataItems(f"{path}: has version {found.version!r}; {VERSION!r} can be read")
    return found.data_items


def file_name(topic: str, stamp: str) -> str:
    """Return the name that scheduler_perf gives such a file; `stamp` is RFC 3339 in UTC."""
    return f"BenchmarkPerfScheduling_benchmark_{topic}_{stamp}.json"


@dataclass(frozen=True, slots=True)
class ThresholdVerdict:
    """A figure and its threshold; None for the figure where there were no samples."""

    name: str
    bucket: str
    unit: str
    figure: float | None
    threshold: float
    expect_lower: bool

    @property
    def is_met(self) -> bool:
        """Whether it is on the right side; a figure that is not there is on none."""
        if self.figure is None:
            return False
        return self.figure < self.threshold if self.expect_lower else self.figure > self.threshold

    def __str__(self) -> str:
        aim = "below" if self.expect_lower else "above"
        found = "no samples: it was over too soon" if self.figure is None else f"{self.figure:.1f} {self.unit}"
        return f"{self.name}: {self.bucket} should be {aim} {self.threshold:g} {self.unit}, found {found}"


def threshold_of(workload: Workload, topic: str) -> float:
    """Return a workload's threshold for a topic; 0 where it has none."""
    if isinstance(workload.threshold, dict):
        return workload.threshold.get(topic, 0.0)
    return workload.threshold


def judged(
    items: Sequence[DataItem], selector: Selector, threshold: float
) -> tuple[list[DataItem], list[ThresholdVerdict]]:
    """Return the items with the threshold in those it is for (`<bucket>Threshold`), and how each stands to it."""
    out: list[DataItem] = []
    verdicts: list[ThresholdVerdict] = []
    for one in items:
        if not threshold or one.metric != selector.name or not selector.labels.items() <= one.labels.items():
            out.append(one)
            continue
        bucket = selector.data_bucket
        verdicts.append(
            ThresholdVerdict(one.name, bucket, one.unit, one.data.get(bucket), threshold, selector.expect_lower)
        )
        out.append(msgspec.structs.replace(one, data={**one.data, f"{bucket}Threshold": threshold}))
    return out, verdicts


PERCENTILES: Final = (50, 90, 95, 99)


class Sampler:
    """Turns a count of scheduled pods, told about once a second, into pods per second.

    A second in which nothing was scheduled gives no sample by itself: the next sample is spread over it, and counts
    once for each second that it stands for.
    """

    def __init__(self) -> None:
        self.samples: list[float] = []
        self._last: tuple[int, float] | None = None
        self._skipped = 0

    def tick(self, scheduled: int, at: float) -> None:
        """Take note of how many pods had been scheduled by then, in seconds; the first only set where to begin."""
        if not scheduled:
            return
        if self._last is None:
            self._last = scheduled, at
            return
        before, since = self._last
        if scheduled == before:
            self._skipped += 1
            return
        self.samples += [(scheduled - before) / (at - since)] * (self._skipped + 1)
        self._last, self._skipped = (scheduled, at), 0


def summary(values: Sequence[float]) -> dict[str, float]:
    """Return the mean and the percentiles of some values, by nearest rank; nothing where there are none."""
    if not values:
        return {}
    ordered = sorted(values)
    ranks = {f"Perc{rank}": ordered[math.ceil(len(ordered) * rank / 100) - 1] for rank in PERCENTILES}
    return {"Average": sum(ordered) / len(ordered), **ranks}


_MAIN: Final = ("Average", "Duration")
_THRESHOLD: Final = "Threshold"
_GROUPED: Final = 1000
_IDENTITY: Final = ("Name", "Metric")


@dataclass(frozen=True, slots=True)
class ComparedRow:
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
) -> list[ComparedRow]:
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
    return [ComparedRow(name, metric, bucket, unit, before.get(key), after.get(key))
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


def figure_text(figure: float | None) -> str:
    """Return how a figure is written: four digits that matter, or a dash for none."""
    if figure is None:
        return "-"
    if abs(figure) >= _GROUPED:
        return f"{figure:,.0f}"
    return f"{figure:.4g}"


def change_of(row: ComparedRow) -> str:
    """Return how a difference is written, or a dash for none."""
    return "-" if row.difference is None else f"{row.difference:+.1%}"


def markdown(rows: Sequence[ComparedRow]) -> str:
    """Return the rows as a table in Markdown."""
    lines = ["| workload | metric | previous | current | difference |", "|---|---|---:|---:|---:|"]
    for row in rows:
        figures = f"{figure_text(row.previous)} | {figure_text(row.current)} | {change_of(row)}"
        lines.append(f"| {row.name} | {row.metric} {row.bucket}, {row.unit} | {figures} |")
    return "\n".join(lines) + "\n"
