"""The journal's files: put aside, in parts, bounded, and never in the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter

from tests.engine.world import World
from tutti.api.configuration import TuttiConfiguration
from tutti.controller.journaling import MOST_RUNS, Recording, journal_at
from tutti.engine.journal import Decided, JournalError, Saw, read, replay

CONFIGURATION = TuttiConfiguration()


def counter() -> Counter:
    return Counter("failures", "", registry=CollectorRegistry())


def lived() -> World:
    world = World()
    world.node("n", gpus=4)
    for number in range(3):
        world.gang(f"g{number}", 2)
        world.run()
    return world


def record(world: World, recording: Recording) -> None:
    """Have a recording take in what a world has seen and decided."""
    for _, line in read(world.journal.getvalue().splitlines(keepends=True)):
        if isinstance(line, Saw):
            recording.saw(line.observation)
        elif isinstance(line, Decided):
            recording.decided(line.at, line.decisions, most=line.most)


def lines_of(*files: Path) -> list[bytes]:
    return [line for file in files for line in file.read_bytes().splitlines(keepends=True)]


def aside(path: Path) -> list[Path]:
    """The files of earlier runs in their order; names of runs within one second do not sort by it."""
    return sorted((one for one in path.parent.iterdir() if one != path), key=lambda one: one.stat().st_mtime_ns)


def test_a_run_that_is_large_is_replayed_from_all_its_parts(tmp_path):
    path, world = tmp_path / "journal", lived()
    size = len(world.journal.getvalue())
    recording = Recording(path, CONFIGURATION, counter(), most_bytes=size // 4)
    record(world, recording)
    recording.close()
    parts = aside(path)
    assert len(parts) > 2
    assert all(part.stat().st_size < size // 2 for part in parts)
    found = replay(lines_of(*parts, path))
    assert found.differences == []
    assert found.decisions == len(world.log)
    with pytest.raises(JournalError, match=r"begins with part 2 of run .*; give all parts, from \.001 on"):
        replay(lines_of(*parts[1:], path))
    with pytest.raises(JournalError, match=r"part 3 of run .*, which does not go on from part 1 of run"):
        replay(lines_of(parts[0], *parts[2:], path))


def test_no_more_parts_are_kept_than_may_be(tmp_path):
    path = tmp_path / "journal"
    recording = Recording(path, CONFIGURATION, counter(), most_bytes=500, most_parts=3)
    record(lived(), recording)
    recording.close()
    parts = aside(path)
    assert len(parts) == 2
    assert parts[-1].name.rpartition(".")[2] > "003"


def test_earlier_runs_stay_and_the_last_that_crashed_longest(tmp_path):
    path = tmp_path / "journal"
    crashed = []
    for number in range(MOST_RUNS + 4):
        with pytest.raises(KeyError) if number == 1 else journal_at(None, CONFIGURATION, counter()):
            with journal_at(path, CONFIGURATION, counter()) as recording:
                record(lived(), recording)
                if number == 1:
                    raise KeyError
            crashed += [path.read_bytes()] if number == 1 else []
    found = aside(path)
    assert len(found) == MOST_RUNS + 1
    assert not found[0].read_bytes().endswith(b'{"line":"ended"}\n')
    assert all(one.read_bytes().endswith(b'{"line":"ended"}\n') for one in [*found[1:], path])


def test_a_run_whose_engine_has_failed_stays_as_one_that_crashed_and_the_next_is_replayed_by_itself(tmp_path):
    path = tmp_path / "journal"
    with journal_at(path, CONFIGURATION, counter()) as recording:
        for number in range(MOST_RUNS + 2):
            record(lived(), recording)
            if number <= MOST_RUNS:
                recording.begin_anew()
    found = aside(path)
    assert len(found) == MOST_RUNS
    for one in (*found, path):
        assert one.read_bytes().endswith(b'{"line":"ended"}\n') is (one == path)
        assert replay(lines_of(one)).differences == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_ends_the_journal_and_nothing_else(tmp_path, monkeypatch):
    failures, path = counter(), tmp_path / "journal"
    with journal_at(path, CONFIGURATION, failures) as recording:
        world = lived()
        record(world, recording)
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, recording._file)
        record(world, recording)
        record(world, recording)
        os.close(full)
    assert failures.collect()[0].samples[0].value == 1
    assert replay(lines_of(path)).differences == []


def test_a_disk_that_takes_a_part_of_a_line_leaves_a_journal_that_can_be_read(tmp_path, monkeypatch):
    failures, path, world = counter(), tmp_path / "journal", lived()
    room = [5_000]
    write = os.write

    def nearly_full(file: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        taken = write(file, data[: room[0]])
        room[0] -= taken
        return taken

    monkeypatch.setattr("tutti.controller.journaling.os.write", nearly_full)
    with journal_at(path, CONFIGURATION, failures) as recording:
        record(world, recording)
    assert path.stat().st_size == 5_000
    assert replay(lines_of(path)).observations > 0
    assert failures.collect()[0].samples[0].value == 1


def test_a_journal_that_cannot_be_opened_is_none(tmp_path):
    failures = counter()
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "held").touch()
    (tmp_path / "journal.20200101T000000Z.001").mkdir()
    with journal_at(tmp_path / "journal", CONFIGURATION, failures) as recording:
        record(lived(), recording)
    assert failures.collect()[0].samples[0].value == 1


def test_a_folder_that_is_not_there_is_said_at_once(tmp_path):
    with pytest.raises(FileNotFoundError), journal_at(tmp_path / "no" / "journal", CONFIGURATION, counter()):
        pass
