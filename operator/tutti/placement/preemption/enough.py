"""What must hold besides room for a choice of victims to do: quota, for one."""

from __future__ import annotations

from collections.abc import Callable

from tutti.placement.framework import Mask

Enough = Callable[[Mask], bool]
"""Given bool[units] that are gone, whether what else must hold does; more that are gone must not undo it."""


def always(gone: Mask) -> bool:  # noqa: ARG001 - what is asked of every such rule
    """Nothing else must hold."""
    return True
