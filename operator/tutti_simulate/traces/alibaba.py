"""Alibaba's traces of GPU clusters: openb (2023) and PAI (2020).

Sources: github.com/alibaba/clusterdata, cluster-trace-gpu-v2023 (csv/openb_pod_list_default.csv and
openb_node_list_gpu_node.csv, both with a first line of names) and cluster-trace-gpu-v2020 (pai_job_table.csv and
pai_task_table.csv, without one; their README tells the columns: plan_cpu is in percent of a core, plan_mem in GB,
plan_gpu in percent of a card).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO

from tutti_simulate.jobs import GPU, BadEntryError, JobPods, Trace, TraceJob
from tutti_simulate.traces.reading import TraceBuilder, column, number_of, optional_number, rows

_MIB, _GB = 2**20, 10**9
_WHOLE = 1000
JOB_COLUMNS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
TASK_COLUMNS = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu",
    "gpu_type",
)  # fmt: skip


def read_openb(file: BinaryIO) -> Trace:
    """Return the pods of a pod list, each a job of its own.

    Its queue is its class of service. A pod that was deleted without having been scheduled, or not deleted, does not
    say how long it runs.
    """
    builder = TraceBuilder()
    for number, row in rows(file, builder):
        builder.add(number, lambda row=row: _openb_job(row))  # type: ignore[misc]
    return builder.trace


def _openb_job(row: Mapping[str, str]) -> TraceJob:
    cards = int(number_of(column(row, "num_gpu"), "num_gpu", most=1024))
    milli = int(number_of(column(row, "gpu_milli"), "gpu_milli", most=_WHOLE))
    requests = {
        "cpu": int(number_of(column(row, "cpu_milli"), "cpu_milli")),
        "memory": int(number_of(column(row, "memory_mib"), "memory_mib")) * _MIB,
    }
    share = milli if cards == 1 and 0 < milli < _WHOLE else 0
    if cards and not share:
        requests[GPU] = cards
    created = number_of(column(row, "creation_time"), "creation_time")
    deleted = optional_number(column(row, "deletion_time"), "deletion_time")
    scheduled = optional_number(column(row, "scheduled_time"), "scheduled_time")
    ran = None if deleted is None or scheduled is None else deleted - scheduled
    if ran is not None and ran < 0:
        raise BadEntryError(f"deletion_time is {-ran:g} s before scheduled_time")
    return TraceJob(
        name=column(row, "name"),
        submitted=created,
        seconds=ran,
        pods=(JobPods(1, {name: units for name, units in requests.items() if units}),),
        queue=row.get("qos", "").strip(),
        models=tuple(one for one in row.get("gpu_spec", "").strip().split("|") if one),
        share=share,
    )


def read_pai(jobs: BinaryIO, tasks: BinaryIO) -> Trace:
    """Return the jobs of a job table and a task table: what a job's tasks ask for starts together.

    A job is submitted when the first of its tasks, or else it, is told to have started: nothing else is known. A job
    without tasks, or without a start, is left out. Parts of cards are told only of single pods; others are rounded up.
    """
    builder = TraceBuilder("line of the task table,")
    found: dict[str, list[tuple[float, float | None, JobPods, str, int]]] = {}
    for number, row in rows(tasks, builder, TASK_COLUMNS):
        try:
            found.setdefault(column(row, "job_name"), []).append(_pai_task(row))
        except BadEntryError as error:
            builder.skip(number, str(error))
    whole = TraceBuilder("line of the job table,")
    whole.trace.skipped, whole.trace.left_out = builder.trace.skipped, builder.trace.left_out
    for number, row in rows(jobs, whole, JOB_COLUMNS):
        whole.add(number, lambda row=row: _pai_job(row, found.pop(column(row, "job_name"), []), whole))  # type: ignore[misc]
    for name in found:
        whole.note("a task whose job is in no job table is left out")
        del name
    return whole.trace


def _pai_task(row: Mapping[str, str]) -> tuple[float, float | None, JobPods, str, int]:
    count = int(number_of(column(row, "inst_num") or "1", "inst_num", least=1))
    cards = number_of(column(row, "plan_gpu") or "0", "plan_gpu", most=100_000)
    share = round(cards * 10) if 0 < cards < 100 and count == 1 else 0  # noqa: PLR2004 - percent
    requests = {
        "cpu": int(number_of(column(row, "plan_cpu") or "0", "plan_cpu") * 10),
        "memory": int(number_of(column(row, "plan_mem") or "0", "plan_mem") * _GB),
        GPU: 0 if share else -int(-cards // 100),
    }
    start = optional_number(column(row, "start_time"), "start_time")
    end = optional_number(column(row, "end_time"), "end_time")
    if not start:
        raise BadEntryError("start_time is not known, so nobody can tell when it came")
    pods = JobPods(count, {name: units for name, units in requests.items() if units})
    return start, end or None, pods, column(row, "gpu_type"), share


def _pai_job(
    row: Mapping[str, str], tasks: list[tuple[float, float | None, JobPods, str, int]], builder: TraceBuilder
) -> TraceJob:
    if not tasks:
        raise BadEntryError(f"{column(row, 'job_name')} has no task that can be read")
    start = min(one[0] for one in tasks)
    ends = [one[1] for one in tasks if one[1] is not None]
    seconds = max(ends) - start if ends else None
    if seconds is not None and seconds < 0:
        raise BadEntryError("its tasks end before they start")
    builder.note("when it was submitted is unknown: it comes when its first task started")
    models = sorted({one[3] for one in tasks} - {"", "MISC", "CPU"})
    share = tasks[0][4] if len(tasks) == 1 else 0
    if len(tasks) > 1 and any(one[4] for one in tasks):
        builder.note("part of a card in a job of several tasks: a whole one is taken")
    pods = tuple(_whole_card(one[2]) if one[4] and not share else one[2] for one in tasks)
    name, user = column(row, "job_name"), column(row, "user")
    return TraceJob(name, start, seconds, pods, user=user, models=tuple(models), share=share)


def _whole_card(pods: JobPods) -> JobPods:
    return JobPods(pods.count, {**pods.requests, GPU: 1})
