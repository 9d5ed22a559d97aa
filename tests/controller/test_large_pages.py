"""What the process holds in memory is moved to large pages, where the system has some."""

from __future__ import annotations

import asyncio
import ctypes
import mmap
import threading
from pathlib import Path

import pytest

from tests.controller.process import Cluster, operator
from tutti.controller import large_pages
from tutti.controller.large_pages import Mapping, ask_for_large_pages, keep_in_large_pages, mappings, worth_asking

MIB = 2**20
LARGE = 2 * MIB
LAYOUT = """\
{head}
Size:              {size} kB
KernelPageSize:        4 kB
Rss:               {rss} kB
Pss:               {rss} kB
Anonymous:         {rss} kB
AnonHugePages:     {large} kB
ShmemPmdMapped:        0 kB
THPeligible:           1
VmFlags: rd wr mr mw me ac
"""
"""proc_pid_smaps(5), a line of each kind."""


def entry(head: str, *, size: int = 4096, rss: int = 4096, large: int = 0) -> str:
    return LAYOUT.format(head=head, size=size, rss=rss, large=large)


@pytest.mark.parametrize(
    ("head", "is_ours"),
    [
        ("7f0000000000-7f0000400000 rw-p 00000000 00:00 0", True),
        ("7f0000000000-7f0000400000 rw-p 00000000 00:00 0          [heap]", True),
        ("7f0000000000-7f0000400000 rw-p 00000000 00:00 0          [stack]", False),
        ("7f0000000000-7f0000400000 rw-s 00000000 00:00 0", False),
        ("7f0000000000-7f0000400000 r-xp 00000000 00:00 0", False),
        ("7f0000000000-7f0000400000 ---p 00000000 00:00 0", False),
        ("7f0000000000-7f0000400000 rw-p 00001000 fe:00 260386     /usr/lib/with space.so", False),
        ("7f0000000000-7f0000400000 rw-s 00000000 00:01 7          /dev/shm/x (deleted)", False),
        ("7f0000000000-7f0000400000 rw-p 00000000 00:01 7          /odd\u2028 \x0cname\ufffd", False),
    ],
)
def test_only_memory_of_the_process_alone_is_its_own(head: str, is_ours: bool) -> None:
    there = [Mapping(0x7F0000000000, 0x7F0000400000, 4 * MIB, 0)]
    assert list(mappings(entry(head))) == (there if is_ours else [])


def test_each_mapping_has_its_own_figures() -> None:
    text = (
        entry("7f0000000000-7f0000400000 rw-p 00000000 00:00 0", rss=1024, large=0)
        + entry("7f0001000000-7f0001400000 r--p 00000000 fe:00 9   /lib/x.so", rss=8, large=4)
        + entry("7f0002000000-7f0002400000 rw-p 00000000 00:00 0", rss=4096, large=2048)
    )
    assert list(mappings(text)) == [
        Mapping(0x7F0000000000, 0x7F0000400000, MIB, 0),
        Mapping(0x7F0002000000, 0x7F0002400000, 4 * MIB, 2 * MIB),
    ]


@pytest.mark.parametrize(
    ("start", "end", "resident", "large", "asked"),
    [
        pytest.param(0, 4 * MIB, 4 * MIB, 0, (0, 4 * MIB), id="full"),
        pytest.param(MIB, 7 * MIB, 6 * MIB, 0, (LARGE, 4 * MIB), id="ends stay as they are"),
        pytest.param(MIB, 3 * MIB, 2 * MIB, 0, None, id="no room for one"),
        pytest.param(MIB, 2 * MIB, MIB, 0, None, id="less than none"),
        pytest.param(0, 20 * MIB, 18 * MIB, 0, (0, 20 * MIB), id="nine tenths in use"),
        pytest.param(0, 20 * MIB, 18 * MIB - 4096, 0, None, id="less in use, as of a stack"),
        pytest.param(0, 4 * MIB, 4 * MIB, 4 * MIB, None, id="has them"),
        pytest.param(0, 4 * MIB, 4 * MIB, 2 * MIB, (0, 4 * MIB), id="has one of two"),
    ],
)
def test_large_pages_are_asked_for_where_they_would_be_filled(
    start: int, end: int, resident: int, large: int, asked: tuple[int, int] | None
) -> None:
    assert worth_asking(Mapping(start, end, resident, large), LARGE) == asked


HAS_SOME = pytest.mark.skipif(
    not large_pages._SWITCH.exists() or "[never]" in large_pages._SWITCH.read_text(),
    reason="this system has no large pages",
)


def in_large_pages(address: int) -> int:
    """How much of the mapping that an address lies in is in large pages."""
    return next(m.large for m in mappings(Path("/proc/self/smaps").read_text()) if m.start <= address < m.end)


@HAS_SOME
def test_what_is_in_memory_is_moved_and_stays_what_it_was() -> None:
    with mmap.mmap(-1, 16 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as kept:
        kept.madvise(mmap.MADV_NOHUGEPAGE)  # or a system that is set to `always` gives them before we ask
        kept[:] = bytes(range(256)) * (16 * MIB // 256)
        address = ctypes.addressof(ctypes.c_char.from_buffer(kept))
        assert in_large_pages(address) == 0
        moved = ask_for_large_pages(threading.Event())
        if moved == 0:
            pytest.skip("this system has none to spare")
        assert in_large_pages(address) > 0
        assert kept[:] == bytes(range(256)) * (16 * MIB // 256)


def test_a_system_without_them_is_asked_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(large_pages, "_SWITCH", tmp_path / "absent")
    listed = asyncio.Event()
    listed.set()
    asyncio.run(asyncio.wait_for(keep_in_large_pages(listed), 60))


def test_an_administrator_who_wants_none_gets_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "enabled").write_text("always madvise [never]\n")
    monkeypatch.setattr(large_pages, "_SWITCH", tmp_path / "enabled")
    monkeypatch.setattr(large_pages, "_MAPPED", tmp_path / "unread")
    assert ask_for_large_pages(threading.Event()) == 0


@HAS_SOME
async def test_the_operator_asks_once_it_has_listed_everything(
    cluster: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    async with operator(kubeconfig, tmp_path) as running:
        said = await running.says("large_pages")
        assert said["bytes"] >= LARGE
        text = await asyncio.to_thread(Path(f"/proc/{running.process.pid}/smaps").read_text)
        assert any(found.large for found in mappings(text))


@HAS_SOME
def test_nothing_more_is_moved_once_the_loop_has_ended() -> None:
    with mmap.mmap(-1, 16 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as kept:
        kept.madvise(mmap.MADV_NOHUGEPAGE)
        kept[:] = bytes(16 * MIB)
        ended = threading.Event()
        ended.set()
        assert ask_for_large_pages(ended) == 0
