"""Which reader reads a file: by what the caller says, or by how the file begins."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, cast

from tutti_simulate.jobs import Trace, completed
from tutti_simulate.traces.alibaba import read_openb, read_pai
from tutti_simulate.traces.deep_learning import read_helios, read_philly
from tutti_simulate.traces.own_journal import read_journal
from tutti_simulate.traces.reading import TraceError
from tutti_simulate.traces.swf import read_swf

FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "swf": "Standard Workload Format, of the Parallel Workloads Archive",
        "openb": "Alibaba's pods of 2023 (openb_pod_list_*.csv)",
        "pai": "Alibaba's PAI of 2020, a folder with pai_job_table.csv and pai_task_table.csv",
        "philly": "Microsoft's Philly of 2017 (cluster_job_log)",
        "helios": "SenseTime's Helios of 2020 (cluster_log.csv)",
        "journal": "what `tutti run --journal` has written",
    }
)
_BEGINNING = 4096
_PACKED = b"\x1f\x8b"
"""How every gzip file begins (RFC 1952, 2.3.1)."""


def read_trace(path: Path, kind: str, *, cpus_per_pod: int) -> Trace:
    """Return the jobs of a trace, in order of submission, each with a run time.

    Args:
        path: The file, which may be gzipped; of PAI, a folder.
        kind: One of `FORMATS`, or `auto`.
        cpus_per_pod: How many processors of a job that tells of nothing else one pod has.

    Raises:
        TraceError: Nothing of it can be used.
        OSError: It cannot be opened.
    """
    try:
        return _read(path, kind, cpus_per_pod)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(f"{path}: it ends in the middle, or is damaged ({error}); fetch it once more") from None
    except TraceError as error:
        raise error if str(path) in str(error) else TraceError(f"{path}: {error}") from None


def _read(path: Path, kind: str, cpus_per_pod: int) -> Trace:
    kind = guessed(path) if kind == "auto" else kind
    with ExitStack() as stack:
        if kind == "pai":
            trace = read_pai(*(stack.enter_context(_opened(_table(path, one))) for one in ("job", "task")))
        else:
            file = stack.enter_context(_opened(path))
            match kind:
                case "swf":
                    trace = read_swf(file, cpus_per_pod=cpus_per_pod)
                case "openb":
                    trace = read_openb(file)
                case "philly":
                    trace = read_philly(file)
                case "helios":
                    trace = read_helios(file)
                case _:
                    trace = read_journal(file)
    if not trace.jobs:
        told = f"; the first: {trace.skipped[0]}" if trace.skipped else ""
        raise TraceError(f"{path}: there is no job in it that can be read as {kind}{told}")
    return completed(trace)


def _table(folder: Path, of: str) -> Path:
    """Return the file of one of PAI's tables, as it is or gzipped.

    Raises:
        TraceError: It is not in the folder; Alibaba's packed folders have to be unpacked first.
    """
    name = f"pai_{of}_table.csv"
    if not folder.is_dir():
        raise TraceError(f"{folder}: a trace of PAI is a folder with pai_job_table.csv and pai_task_table.csv in it")
    for found in (folder / name, folder / f"{name}.gz"):
        if found.is_file():
            return found
    packed = folder / f"pai_{of}_table.tar.gz"
    hint = f"; {packed.name} has to be unpacked first" if packed.is_file() else ""
    raise TraceError(f"{folder}: there is no {name} in it, nor {name}.gz{hint}")


def guessed(path: Path) -> str:
    """Return which format a file is in.

    Raises:
        TraceError: Its beginning is that of none.
        OSError: It cannot be opened.
    """
    if path.is_dir():
        return "pai"
    with _opened(path) as file:
        beginning = file.read(_BEGINNING).decode("utf-8", "replace").lstrip("\ufeff \r\n\t")
    first = beginning.partition("\n")[0]
    if beginning.startswith("["):
        return "philly"
    if beginning.startswith("{"):
        return "journal"
    if "gpu_milli" in first:
        return "openb"
    if "gpu_num" in first and "submit_time" in first:
        return "helios"
    lines = [line for line in beginning.splitlines() if line.strip() and not line.startswith(";")]
    if beginning.startswith(";") or (lines and len(lines[0].split()) == 18):  # noqa: PLR2004 - as SWF has fields
        return "swf"
    raise TraceError(f"{path}: nobody can tell its format; say it by --format: {', '.join(FORMATS)}")


def _opened(path: Path) -> BinaryIO:
    """Open a file, and what is packed in it, whatever its name says."""
    file = path.open("rb")
    packed = file.peek(2)[:2] == _PACKED
    return cast("BinaryIO", gzip.GzipFile(fileobj=file)) if packed else file
