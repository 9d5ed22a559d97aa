"""What a benchmark has found, as the JSON that Kubernetes' perf-dash reads (`DataItems`, version v1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

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


def read(path: Path) -> list[DataItem]:
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
