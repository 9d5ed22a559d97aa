"""How columns get more room: by a copy into a larger array, whose new places are filled with one value."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

S = TypeVar("S", bound=np.generic)


def longer(array: NDArray[S], rows: int, *, fill: int = 0) -> NDArray[S]:
    """Return array[n, ...] with more rows, each column still in one piece of memory: array[rows, ...]."""
    out = np.full((rows, *array.shape[1:]), fill, dtype=array.dtype, order="F")
    out[: len(array)] = array
    return out


def wider(array: NDArray[S], columns: int) -> NDArray[S]:
    """Return array[rows, n] with at least so many columns, or twice as many as it has: the new ones hold 0."""
    out = np.zeros((len(array), max(columns, 2 * array.shape[1])), dtype=array.dtype, order="F")
    out[:, : array.shape[1]] = array
    return out
