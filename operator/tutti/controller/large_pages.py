"""Has Linux hold what the operator knows in large pages, so that the processor finds it with fewer lookups.

A turn of the engine reads a little of many objects that lie far apart. With pages of 4 KiB nearly each of them needs a
translation that the processor no longer has, and on a virtual machine each one costs two walks through the tables.
Pages of 2 MiB cover all of it. Linux gives them by itself where `transparent_hugepage/enabled` says `always`, and then
only slowly to a heap that grows in small steps; where it says `madvise`, whoever wants them has to ask, and Python does
not. Where it says `never`, or the kernel knows nothing of this (before 6.1, other systems), everything stays as it is.

Sources: madvise(2), MADV_HUGEPAGE and MADV_COLLAPSE; Documentation/admin-guide/mm/transhuge.rst of Linux.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger(__name__)

_SWITCH: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_SIZE: Final = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
_MAPPED: Final = Path("/proc/self/smaps")
_MADV_HUGEPAGE: Final = 14
_MADV_COLLAPSE: Final = 25
_SHARE_IN_USE: Final = 0.9
"""A mapping of which less is in use keeps its small pages: large ones would fill the rest, such as unused stack."""
_AGAIN_AFTER_SECONDS: Final = 600.0
"""What the heap has grown by since is asked for as well."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """A part of the process' memory that belongs to it alone and to no file: addresses and sizes in bytes.

    Attributes:
        start: Its first address.
        end: The first one after it.
        resident: How much of it is in use.
        large: How much of that is in large pages.
    """

    start: int
    end: int
    resident: int
    large: int


def mappings(smaps: str) -> Iterator[Mapping]:
    """Yield the writable anonymous mappings of the text of /proc/PID/smaps, whose layout proc_pid_smaps(5) gives."""
    bounds: tuple[int, int] | None = None
    resident = 0
    for line in filter(None, smaps.split("\n")):  # the name of a mapped file may have other ends of lines in it
        head, *rest = line.split()
        if head == "Rss:":
            resident = int(rest[0]) * 1024
        elif head == "AnonHugePages:" and bounds is not None:
            yield Mapping(*bounds, resident, int(rest[0]) * 1024)
        elif not head.endswith(":"):
            permissions, _, _, inode, *name = rest
            ours = permissions == "rw-p" and inode == "0" and (not name or name[0] == "[heap]")
            start, _, end = head.partition("-")
            bounds = (int(start, 16), int(end, 16)) if ours else None


def worth_asking(found: Mapping, size: int) -> tuple[int, int] | None:
    """Return the address and length of the large pages of `size` bytes that a mapping has room for and would fill.

    None where it has no room for one, has them already, or where most of it is not in use.
    """
    start, end = -(-found.start // size) * size, found.end // size * size
    in_use = found.resident >= _SHARE_IN_USE * (found.end - found.start)
    return (start, end - start) if end > start and in_use and found.large < end - start else None


def ask_for_large_pages(ended: threading.Event) -> int:
    """Have what this process has in memory moved to large pages, and return how many bytes were moved now.

    Whoever touches a page meanwhile waits until it is copied. What cannot be moved at once, for want of free pages or
    because the kernel is older than 6.1, is left to the kernel, which does it by and by.

    Args:
        ended: Set when nothing more is to be moved.

    Raises:
        OSError: the kernel has no large pages.
    """
    if "[never]" in _SWITCH.read_text():
        return 0
    size = int(_SIZE.read_text())
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    moved = 0
    for found in mappings(_MAPPED.read_text(errors="replace")):
        where = worth_asking(found, size)
        if where is None:
            continue
        if libc.madvise(*where, _MADV_HUGEPAGE) and ctypes.get_errno() != errno.ENOMEM:  # it has gone meanwhile
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        moved -= found.large  # which are found to be so at once
        for at in range(where[0], sum(where), size):
            if ended.is_set():
                return max(0, moved)
            moved += 0 if libc.madvise(at, size, _MADV_COLLAPSE) else size
    return max(0, moved)


async def keep_in_large_pages(listed: asyncio.Event) -> None:
    """Ask whenever everything was listed anew, and now and then for what came since; until it is cancelled.

    Args:
        listed: Set whenever everything was listed; cleared here.
    """
    ended = threading.Event()
    try:
        await listed.wait()
        while True:
            listed.clear()
            moved = await asyncio.to_thread(ask_for_large_pages, ended)
            if moved:
                log.info("large_pages", bytes=moved)
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_AFTER_SECONDS):
                    await listed.wait()
    except OSError as error:
        log.info("no_large_pages", error=str(error))
    finally:
        ended.set()  # the loop ends when its threads have
