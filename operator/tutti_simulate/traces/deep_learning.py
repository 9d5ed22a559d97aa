"""Traces of clusters for deep learning: Microsoft's Philly (2017) and SenseTime's Helios (2020).

Sources: github.com/msr-fiddle/philly-traces (cluster_job_log, a JSON array; its README tells the fields) and
github.com/S-Lab-System-Group/HeliosData (data/CLUSTER/cluster_log.csv, whose first line names the columns).
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, BinaryIO

import msgspec

from tutti_simulate.jobs import GPU, BadEntryError, JobPods, Trace, TraceJob
from tutti_simulate.traces.reading import TraceBuilder, TraceError, column, number_of, optional_number, rows

_LARGEST_BYTES = 2 * 2**30
_MILLI = 1000
CPUS_PER_GPU = 6
"""CPUs that a Philly job gets with each GPU, as the trace does not tell: those of its machines are shared evenly."""
_TIME = "%Y-%m-%d %H:%M:%S"
_NOTHING = (None, "", "None")


def read_philly(file: BinaryIO) -> Trace:
    """Return the jobs of a job log: a pod for each machine of the last attempt, with as many GPUs as it had there.

    A job runs as long as its attempts together. One that never ran does not say how large it is, and is left out.

    Raises:
        TraceError: It is no JSON array, or larger than two gibibytes.
    """
    data = file.read(_LARGEST_BYTES + 1)
    if len(data) > _LARGEST_BYTES:
        raise TraceError("it is larger than 2 GiB; give a part of it")
    try:
        entries = msgspec.json.decode(data.removeprefix(codecs.BOM_UTF8), type=list[msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise TraceError(f"it is no JSON array of jobs: {error}") from None
    builder = TraceBuilder("entry")
    for number, raw in enumerate(entries, start=1):
        builder.add(number, lambda raw=raw: _philly_job(raw, builder))  # type: ignore[misc]
    return builder.trace


class _Detail(msgspec.Struct):
    ip: str = ""
    gpus: list[str] = []


class _Attempt(msgspec.Struct):
    start_time: str | None = None
    end_time: str | None = None
    detail: list[_Detail] = []


class _PhillyJob(msgspec.Struct):
    jobid: str
    submitted_time: str
    vc: str = ""
    user: str = ""
    attempts: list[_Attempt] = []


_PHILLY = msgspec.json.Decoder(_PhillyJob)


def _philly_job(raw: msgspec.Raw, builder: TraceBuilder) -> TraceJob:
    try:
        found = _PHILLY.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadEntryError(str(error)) from None
    ran = [one for one in found.attempts if one.detail]
    if not ran:
        raise BadEntryError("it never ran, so nobody can tell how many GPUs it asked for")
    cards = Counter(len(one.gpus) for one in ran[-1].detail if one.gpus)
    if not cards:
        raise BadEntryError("its last attempt names no GPUs")
    times = [(_seconds(one.start_time), _seconds(one.end_time)) for one in ran]
    known = [end - start for start, end in times if start is not None and end is not None and end >= start]
    builder.note(f"CPUs unknown: {CPUS_PER_GPU} are taken for each GPU")
    submitted = _seconds(found.submitted_time)
    if submitted is None:
        raise BadEntryError("submitted_time is not known")
    pods = tuple(
        JobPods(count, {GPU: gpus, "cpu": gpus * CPUS_PER_GPU * _MILLI}) for gpus, count in sorted(cards.items())
    )
    return TraceJob(found.jobid, submitted, sum(known) if known else None, pods, queue=found.vc, user=found.user)


def _seconds(text: str | None) -> float | None:
    """Return a time of the trace in seconds; the traces begin after 2017, and are played from their first job on."""
    if text in _NOTHING:
        return None
    assert text is not None
    try:
        at = datetime.strptime(text.strip(), _TIME).replace(tzinfo=UTC)
    except ValueError:
        raise BadEntryError(f"{text[:40]!r} is no time such as 2017-10-09 07:05:29") from None
    return at.timestamp() - _EPOCH


_EPOCH = datetime(2015, 1, 1, tzinfo=UTC).timestamp()


def read_helios(file: BinaryIO) -> Trace:
    """Return the jobs of a cluster log: `node_num` equal pods, each with its part of `gpu_num` and `cpu_num`."""
    builder = TraceBuilder()
    for number, row in rows(file, builder):
        builder.add(number, lambda row=row: _helios_job(row, builder))  # type: ignore[misc]
    return builder.trace


def _helios_job(row: Mapping[str, Any], builder: TraceBuilder) -> TraceJob:
    gpus = int(number_of(column(row, "gpu_num") or "0", "gpu_num"))
    cpus = int(number_of(column(row, "cpu_num") or "0", "cpu_num"))
    nodes = max(1, int(number_of(column(row, "node_num") or "1", "node_num")))
    if gpus % nodes or cpus % nodes:
        builder.note("its GPUs or CPUs do not divide by its nodes: each pod gets the part that is rounded up")
    requests = {GPU: -(-gpus // nodes), "cpu": -(-cpus // nodes) * _MILLI}
    submitted = _seconds(column(row, "submit_time"))
    if submitted is None:
        raise BadEntryError("submit_time is not known")
    return TraceJob(
        name=column(row, "job_id"),
        submitted=submitted,
        seconds=optional_number(column(row, "duration"), "duration"),
        pods=(JobPods(nodes, {name: units for name, units in requests.items() if units}),),
        queue=column(row, "vc"),
        user=row.get("user", "").strip(),
    )
