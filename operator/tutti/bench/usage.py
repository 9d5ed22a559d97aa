"""What a scheduler's process uses, as the kernel tells it (Linux, /proc)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_UTIME, _STIME, _RSS = 11, 12, 21
"""Places of fields in /proc/<pid>/stat, counted from the one after the command (proc(5))."""
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor time since the process began, in seconds, and memory now, in bytes."""

    cpu_seconds: float
    memory_bytes: int


Meter = Callable[[], Usage | None]
"""Tells what is used now; None where that cannot be known."""


def unknown() -> Usage | None:
    """Return nothing: for a scheduler that runs elsewhere."""
    return None


def usage_of(pid: int) -> Usage | None:
    """Return what a process of this machine uses; None where it is no more, or the system does not tell."""
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    ticks = int(fields[_UTIME]) + int(fields[_STIME])
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), int(fields[_RSS]) * os.sysconf("SC_PAGE_SIZE"))
