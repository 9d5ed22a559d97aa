"""Which container images are on which nodes, found by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from tutti.api.core import ContainerImage


def normalised(name: str) -> str:
    """Return an image name with its tag; one without tag or digest means `latest` (plugins/imagelocality)."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


class ImageTable:
    """Image name to the rows that hold it.

    Attributes:
        version: Grows whenever an image comes to a node or leaves it.
    """

    def __init__(self) -> None:
        self.version = 0
        self._sizes: dict[str, dict[int, int]] = {}
        self._on: dict[int, dict[str, int]] = {}

    def put(self, row: int, images: Iterable[ContainerImage]) -> None:
        """Say which images a row holds now."""
        now = {name: image.size_bytes for image in images for name in image.names}
        before = self._on.get(row, {})
        if now == before:
            return
        for name in before:
            holders = self._sizes[name]
            del holders[row]
            if not holders:
                del self._sizes[name]
        for name, size in now.items():
            self._sizes.setdefault(name, {})[row] = size
        if now:
            self._on[row] = now
        else:
            self._on.pop(row, None)
        self.version += 1

    def holders(self, name: str) -> Mapping[int, int]:
        """Return row to size in bytes, for the rows that hold an image."""
        return self._sizes.get(name, {})

    def sizes(self, name: str, rows: int) -> NDArray[np.int64]:
        """Return int64[rows]: the size of an image in bytes where a row holds it, else 0."""
        out = np.zeros(rows, dtype=np.int64)
        held = self.holders(name)
        if held:
            out[np.fromiter(held, dtype=np.int64, count=len(held))] = list(held.values())
        return out
