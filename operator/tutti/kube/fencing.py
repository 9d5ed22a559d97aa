"""The question every writer asks before it writes: may this process still act?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Fence: TypeAlias = Callable[[], None]
"""Returns at once where writing is allowed, and raises `LeadershipLost` where it is not any more."""


class LeadershipLost(Exception):  # noqa: N818 - it is an event that ends the process, named as such
    """Another replica holds the lease, or may take it at any moment: nothing may be written any more."""


def unfenced() -> None:
    """Allow every write: for a process that is alone by construction, such as the demo."""
