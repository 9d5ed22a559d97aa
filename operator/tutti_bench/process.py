"""A scheduler's process: what it uses, as the kernel tells it (Linux, /proc), and how it is held back for a while."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
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


@dataclass(frozen=True, slots=True)
class Process:
    """The process of a scheduler.

    Attributes:
        pid: Where it runs on this machine; None where it runs elsewhere.
        drains: Whether it is stopped while the pods that are measured are created, so that only scheduling is timed.
    """

    pid: int | None = None
    drains: bool = False

    def usage(self) -> Usage | None:
        """Return what it uses; None where it is elsewhere, or no more, or the system does not tell."""
        if self.pid is None:
            return None
        try:
            text = (_PROC / str(self.pid) / "stat").read_text("utf-8")
        except OSError:
            return None
        fields = text.rpartition(")")[2].split()
        ticks = int(fields[_UTIME]) + int(fields[_STIME])
        return Usage(ticks / os.sysconf("SC_CLK_TCK"), int(fields[_RSS]) * os.sysconf("SC_PAGE_SIZE"))

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Have it stand still meanwhile, if it drains.

        Raises:
            ProcessLookupError: It is no more.
        """
        if self.pid is None or not self.drains:
            yield
            return
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)


ELSEWHERE: Final = Process()
"""A scheduler that runs elsewhere."""
