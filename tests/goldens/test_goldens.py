"""Golden journals tell an engine that decides otherwise from one that does not."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.goldens.__main__ import main
from tests.goldens.checking import check, checked
from tests.goldens.recording import RANDOM, Job, jobs, record
from tutti.engine.journal import Decided, read
from tutti.engine.records.decisions import NoteFault

TWO = [Job("engine", 7, 2), Job("roles", 3, 1)]


def unseen(*_: int) -> None:
    """Show no progress."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("goldens") / "set"
    assert record(TWO, folder, 1, unseen) == len(list(folder.iterdir())) >= 2
    return folder


def turns(path: Path) -> list[tuple[int, Decided]]:
    lines = path.read_bytes().splitlines()
    return [(number, line) for number, line in read(lines) if isinstance(line, Decided)]


def largest(folder: Path) -> Path:
    return max(folder.iterdir(), key=lambda path: path.stat().st_size)


def altered(path: Path, to: Path, number: int, line: Decided) -> Path:
    """A copy of a journal in which a line is another one."""
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number - 1] = msgspec.json.encode(line) + b"\n"
    to.write_bytes(b"".join(lines))
    return to


def test_what_is_recorded_is_decided_again(recorded: Path, capsys: pytest.CaptureFixture[str]):
    told: list[tuple[int, int]] = []
    found = check(recorded, 1, lambda done, whole: told.append((done, whole)))
    assert [one.first for one in found] == [""] * len(found)
    assert sum(one.decisions for one in found) > 50
    assert told == [(number, len(found)) for number in range(1, len(found) + 1)]
    assert main(["check", str(recorded), "--processes", "1"]) == 0
    assert "all equal" in capsys.readouterr().out


def test_the_first_decision_that_differs_is_told(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = largest(recorded)
    place, (number, line) = next((n, one) for n, one in enumerate(turns(path), 1) if len(one[1].decisions) > 1)
    other = NoteFault("Pod", "default", "a", "settling", "it was another")
    changed = msgspec.structs.replace(line, decisions=[line.decisions[0], other, *line.decisions[2:]])
    altered(path, tmp_path / path.name, number, changed)
    assert main(["check", str(tmp_path), "--processes", "1"]) == 1
    first, was, now, verdict = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{path.name}: turn {place} (line {number}), at ")
    assert first.endswith("decision 2")
    assert was == f"  - {json.dumps(msgspec.to_builtins(other), separators=(',', ':'))}"
    assert now == f"  + {msgspec.json.encode(line.decisions[1]).decode()}"
    assert verdict.endswith("1 differ")


@pytest.mark.parametrize("more", [True, False])
def test_a_decision_too_many_or_too_few_is_told(recorded: Path, tmp_path: Path, more: bool):
    path = largest(recorded)
    number, line = next(one for one in turns(path) if one[1].decisions)
    decisions = [*line.decisions, line.decisions[0]] if more else line.decisions[:-1]
    copy = altered(path, tmp_path / path.name, number, msgspec.structs.replace(line, decisions=decisions))
    found = checked(copy)
    assert found.different == 1
    assert found.first.splitlines()[2 if more else 1].endswith("nothing")


def test_a_journal_that_cannot_be_replayed_differs(tmp_path: Path):
    (tmp_path / "torn.jsonl").write_bytes(b"{}\n{}\n")
    assert checked(tmp_path / "torn.jsonl").first.startswith("torn.jsonl: line 1 is no line of a journal")


def test_a_folder_with_something_in_it_is_not_recorded_into(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "engine-000.000.jsonl").touch()
    assert main(["record", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_a_folder_without_journals_is_no_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["check", str(tmp_path)]) == 2
    assert "there are no journals" in capsys.readouterr().err


def test_a_whole_set_holds_two_hundred_random_histories_the_demo_drains_and_the_week():
    counted: dict[str, int] = {}
    for job in jobs():
        counted[job.kind] = counted.get(job.kind, 0) + job.count
    assert sum(counted[kind] for kind in RANDOM) == 200
    assert counted.keys() - RANDOM.keys() >= {"demo", "drain", "week"}
    assert len({job.name for job in jobs()}) == len(jobs())
