"""Standard Workload Format: one job a line, eighteen numbers, -1 for what is not known.

Source: the Parallel Workloads Archive, "The Standard Workload Format", version 2.2 (D. Feitelson): 1 job number, 2
submit time, 3 wait time, 4 run time, 5 allocated processors, 6 average CPU time, 7 used memory (KB per processor),
8 requested processors, 9 requested time, 10 requested memory (KB per processor), 11 status, 12 user, 13 group, 14
application, 15 queue, 16 partition, 17 preceding job, 18 think time. Lines that begin with `;` are comments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from tutti_simulate.jobs import BadEntryError, JobPods, Trace, TraceJob
from tutti_simulate.traces.reading import UNREADABLE, TraceBuilder, bounded_lines, number_of

FIELDS = 18
_MILLI = 1000
_KIB = 1024
_NAMES = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "CPU time", "used memory",
    "requested processors", "requested time", "requested memory", "status", "user", "group", "application", "queue",
    "partition", "preceding job", "think time",
)  # fmt: skip


def read_swf(file: BinaryIO, *, cpus_per_pod: int) -> Trace:
    """Return the jobs of a trace.

    A job of more processors than `cpus_per_pod` becomes pods of so many, and one of the rest. One that was cancelled
    before it started (it ran for no known time and had no processors) is left out, with the reason.
    """
    builder = TraceBuilder()
    for number, line in bounded_lines(file):
        if line is None:
            builder.skip(number, UNREADABLE)
        elif line.strip() and not line.lstrip().startswith(";"):
            builder.add(number, lambda line=line: _job(line.split(), cpus_per_pod, builder))  # type: ignore[misc]
    return builder.trace


def _job(cells: Sequence[str], per_pod: int, builder: TraceBuilder) -> TraceJob:
    if len(cells) != FIELDS:
        raise BadEntryError(f"it has {len(cells)} fields, not {FIELDS}")
    values = [number_of(cell, name, least=-1) for cell, name in zip(cells, _NAMES, strict=True)]
    _, submitted, _, ran, had, _, used, wanted, limit, memory, _, user, group, _, queue, partition, _, _ = values
    processors = int(wanted if wanted > 0 else had)
    if processors < 1:
        raise BadEntryError("it asks for no processors (fields 5 and 8)")
    if wanted < 1:
        builder.note("requested processors unknown: those that it had are taken")
    each = int((memory if memory > 0 else max(used, 0)) * _KIB)
    if ran >= 0 and limit > 0 and ran > limit:
        builder.note("it ran for longer than it asked for: it asks for as long")
        limit = ran
    return TraceJob(
        name=cells[0],
        submitted=submitted,
        seconds=ran if ran >= 0 else None,
        pods=tuple(_pods(processors, per_pod, each)),
        queue=f"queue-{queue:.0f}" if queue >= 0 else f"partition-{partition:.0f}" if partition >= 0 else "",
        user=f"user-{user:.0f}" if user >= 0 else f"group-{group:.0f}" if group >= 0 else "",
        limit=limit if limit > 0 else None,
    )


def _pods(processors: int, per_pod: int, memory: int) -> list[JobPods]:
    whole, rest = divmod(processors, per_pod)
    sizes = [(whole, per_pod)] if whole else []
    sizes += [(1, rest)] if rest else []
    return [
        JobPods(count, {"cpu": cpus * _MILLI, **({"memory": memory * cpus} if memory else {})}) for count, cpus in sizes
    ]
