"""Bad rows of traces in every format: each is told with its place and why, and the others are read as without it."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.simulate.small_traces import NODES, job, played, written
from tutti_simulate.jobs import Trace
from tutti_simulate.traces.alibaba import read_openb, read_pai
from tutti_simulate.traces.deep_learning import read_helios, read_philly
from tutti_simulate.traces.formats import FORMATS, read_trace
from tutti_simulate.traces.own_journal import read_journal
from tutti_simulate.traces.reading import TraceError
from tutti_simulate.traces.swf import read_swf

SWF = "{job} {submitted} 0 {ran} {size} -1 -1 {size} 9 -1 1 1 1 1 1 1 -1 -1"
OPENB_HEAD = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
)
OPENB = "{job},1000,1024,{size},1000,,LS,Succeeded,{submitted},{ended},{submitted}"
HELIOS_HEAD = "job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue,vc"
HELIOS = "{job},u,{size},6,1,COMPLETED,{time},{time},{time},{ran},q,v"
TASK = "{job},worker,1,Terminated,{submitted},{ended},600,29.3,{cards},P100"
FEW = {"job": "7", "submitted": "100", "ran": "60", "ended": "160", "size": "2", "cards": "200"}
FEW["time"] = "2020-05-01 00:00:00"
MANY = ("nan", "-5", "inf", "1e300", "x", "0x10", "1_000", "١٢", "1,5", "--1", "", "1e", "\x00")


def swf(*lines: str) -> Trace:
    return read_swf(_file(lines), cpus_per_pod=8)


def openb(*lines: str) -> Trace:
    return read_openb(_file([OPENB_HEAD, *lines]))


def helios(*lines: str) -> Trace:
    return read_helios(_file([HELIOS_HEAD, *lines]))


def pai(*lines: str) -> Trace:
    names = dict.fromkeys(line.partition(",")[0] for line in lines)
    return read_pai(_file([f"{name},i,u,Terminated,100,160" for name in names]), _file(lines))


def _file(lines: list[str] | tuple[str, ...]) -> BinaryIO:
    return io.BytesIO(("\n".join(lines) + "\n").encode())


ROWS: dict[str, tuple[Callable[..., Trace], str, tuple[str, ...], int]] = {
    "swf": (swf, SWF, ("submitted", "ran", "size"), 2),
    "openb": (openb, OPENB, ("submitted", "size"), 3),
    "helios": (helios, HELIOS, ("size", "time", "ran"), 3),
    "pai": (pai, TASK, ("submitted", "cards"), 2),
}
"""How each is read, one of its rows, the numbers in that, and where the second row of a file stands."""


def _cases() -> list[tuple[str, str, str]]:
    return [(kind, field, bad) for kind, (_, _, fields, _) in ROWS.items() for field in fields for bad in MANY]


UNKNOWN = {("helios", "ran"): ("nan", ""), ("helios", "size"): ("",), ("pai", "cards"): ("",)}
"""What says there that nothing is known, and is no mistake."""


@pytest.mark.parametrize(("kind", "field", "bad"), _cases())
def test_a_number_that_is_none_costs_its_row_alone(kind: str, field: str, bad: str) -> None:
    read, row, _, place = ROWS[kind]
    if bad in UNKNOWN.get((kind, field), ()):
        return
    first, last = (row.format(**{**FEW, "job": name}) for name in ("1", "3"))
    without = read(first, last)
    found = read(first, row.format(**{**FEW, "job": "2", field: bad}), last)
    assert found.jobs == without.jobs
    assert found.left_out >= 1
    told = [one for one in found.skipped if f" {place}: " in one]
    assert told, found.skipped
    assert len(told[0].split(": ", 1)[1]) > 10


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize(
    "line", ["", "   ", ",,,,,,,,,,,", "a", "\x00" * 30, "é" * 50, '"' * 7, "1,2,3\t", "x" * 200_000, ";" * 40]
)
def test_a_row_of_another_shape_changes_nothing_else(kind: str, line: str) -> None:
    read, row, _, _ = ROWS[kind]
    first, last = (row.format(**{**FEW, "job": name}) for name in ("1", "3"))
    assert read(first, line, last).jobs == read(first, last).jobs


PHILLY = {"status": "Pass", "vc": "v", "jobid": "1", "user": "u", "submitted_time": "2017-10-03 00:00:20"}
PHILLY["attempts"] = [
    {"start_time": "2017-10-03 00:00:40", "end_time": "2017-10-03 02:45:01", "detail": [{"ip": "m", "gpus": ["gpu0"]}]}
]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"submitted_time": "yesterday"}, "'yesterday' is no time"),
        ({"submitted_time": None}, "Expected `str`, got `null`"),
        ({"submitted_time": "0001-01-01 00:00:00"}, "it was submitted at"),
        ({"submitted_time": "9999-12-31 23:59:59"}, "it was submitted at"),
        ({"attempts": None}, "Expected `array`, got `null`"),
        ({"attempts": []}, "it never ran"),
        ({"attempts": [{"detail": [{"ip": "m", "gpus": []}]}]}, "its last attempt names no GPUs"),
        ({"attempts": [{"detail": [{"ip": 5, "gpus": ["g"]}]}]}, "Expected `str`, got `int`"),
        ({"attempts": [{"detail": [{"gpus": ["g"]}] * 30_000}]}, "pods, which must be within 1 and"),
        ({"jobid": 7}, "Expected `str`, got `int`"),
    ],
)
def test_a_bad_entry_of_philly_costs_itself(bad, said) -> None:
    def read(*entries: object) -> Trace:
        return read_philly(io.BytesIO(json.dumps(entries).encode()))

    found = read(PHILLY, {**PHILLY, "jobid": "2", **bad}, {**PHILLY, "jobid": "3"})
    assert found.jobs == read(PHILLY, {**PHILLY, "jobid": "3"}).jobs
    assert found.skipped[0].startswith("entry 2: ")
    assert said in found.skipped[0]


@pytest.mark.parametrize("kind", ["openb", "helios"])
def test_columns_may_stand_in_any_order_and_others_beside_them(kind: str) -> None:
    head, row, read = (OPENB_HEAD, OPENB, read_openb) if kind == "openb" else (HELIOS_HEAD, HELIOS, read_helios)
    names, cells = head.split(","), row.format(**FEW).split(",")
    turned = [",".join(["more", *reversed(one)]) for one in (names, cells)]
    assert read(_file(turned)).jobs == read(_file([head, ",".join(cells)])).jobs


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "data", [b"", b"\n\n\r\n", b"\xef\xbb\xbf", b"\x00\x00", b"\xff\xfe1\x00,\x002\x00\n\x00", b"\x1f\x8b"]
)
def test_a_file_without_anything_says_so(tmp_path: Path, kind: str, data: bytes) -> None:
    path = tmp_path / "trace"
    if kind == "pai":
        path.mkdir()
        for name in ("pai_job_table.csv", "pai_task_table.csv"):
            (path / name).write_bytes(data)
    else:
        path.write_bytes(data)
    with pytest.raises(TraceError) as error:
        read_trace(path, kind, cpus_per_pod=1)
    assert str(path) in str(error.value)


def _torn(data: bytes) -> dict[str, bytes]:
    packed = gzip.compress(data)
    return {
        "cut short": packed[:-12],
        "in the head": packed[:6],
        "a byte flipped": packed[:-60] + bytes([packed[-60] ^ 0xFF]) + packed[-59:],
        "a wrong sum": packed[:-8] + b"\x00\x00\x00\x00" + packed[-4:],
        "something behind": packed + b"garbage",
    }


@pytest.mark.parametrize("how", ["cut short", "in the head", "a byte flipped", "a wrong sum", "something behind"])
@pytest.mark.parametrize("kind", ["auto", "swf"])
def test_what_is_packed_and_damaged_says_so(tmp_path: Path, how: str, kind: str) -> None:
    lines = [
        SWF.format(**{**FEW, "job": str(number), "submitted": str(number * 7919 % 1000)}) for number in range(2000)
    ]
    path = tmp_path / "trace.gz"
    path.write_bytes(_torn("\n".join(lines).encode())[how])
    with pytest.raises(TraceError, match="is damaged"):
        read_trace(path, kind, cpus_per_pod=8)


def _journal(tmp_path: Path) -> bytes:
    sink = io.BytesIO()
    played(written(tmp_path, NODES), job("a", 0, 100), job("b", 10, 200), job("c", 20, 50), sink=sink)
    return sink.getvalue()


def test_a_journal_whose_last_line_was_cut_off_tells_of_all_before_it(tmp_path: Path) -> None:
    whole = _journal(tmp_path)
    lines = whole.splitlines(keepends=True)
    found = read_journal([*lines[:-1], lines[-1][: len(lines[-1]) // 2]])
    assert {one.name for one in found.jobs} == {one.name for one in read_journal(lines).jobs}


@pytest.mark.parametrize("bad", [b"{}\n", b"[1]\n", b"\xff\xfe\n", b'{"type":"saw"}\n', b"null\n"])
def test_a_line_of_a_journal_that_is_none_is_named(tmp_path: Path, bad: bytes) -> None:
    """What comes after it would be played on a cluster that lacks what it told: nothing is taken, and it is said why."""
    lines = _journal(tmp_path).splitlines(keepends=True)
    with pytest.raises(TraceError, match="line 5"):
        read_journal([*lines[:4], bad, *lines[5:]])
