"""What the readers make of lines in each format; the sources of the formats are named in the readers."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_simulate.jobs import GPU, GPU_SHARE, JobPods, Trace, completed, thinned, with_shares
from tutti_simulate.traces.alibaba import read_openb, read_pai
from tutti_simulate.traces.deep_learning import CPUS_PER_GPU, read_helios, read_philly
from tutti_simulate.traces.formats import guessed, read_trace
from tutti_simulate.traces.reading import LONGEST_LINE, MOST_TOLD, TraceError
from tutti_simulate.traces.swf import read_swf

EXAMPLES = Path(__file__).parents[2] / "examples" / "simulate"
OPENB = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
HELIOS = "job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue,vc"
MIB = 2**20


def file(*lines: str) -> io.BytesIO:
    return io.BytesIO(("\n".join(lines) + "\n").encode())


# SWF: field by field as the archive's page defines them; -1 is "not known".
SWF = [
    ("7 100 5 60 4 -1 -1 4 120 -1 1 3 2 -1 1 -1 -1 -1", (100, 60, [(1, 4)], 120, "queue-1", "user-3")),
    ("7 0 -1 60 4 -1 -1 -1 -1 -1 1 -1 2 -1 -1 5 -1 -1", (0, 60, [(1, 4)], None, "partition-5", "group-2")),
    ("7 0 -1 -1 -1 -1 -1 70 99 -1 5 -1 -1 -1 -1 -1 -1 -1", (0, None, [(2, 32), (1, 6)], 99, "", "")),
    ("7 0 -1 200 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1", (0, 200, [(1, 1)], 200, "queue-1", "user-1")),
]


@pytest.mark.parametrize(("line", "expected"), SWF)
def test_a_line_of_swf_is_read_by_its_eighteen_fields(line, expected):
    (job,) = read_swf(file("; Version: 2.2", "", line), cpus_per_pod=32).jobs
    submitted, ran, sizes, limit, queue, user = expected
    assert (job.submitted, job.seconds, job.limit, job.queue, job.user) == (submitted, ran, limit, queue, user)
    assert [(one.count, one.requests["cpu"] // 1000) for one in job.pods] == sizes


def test_memory_of_swf_is_kib_per_processor():
    (job,) = read_swf(file("1 0 0 9 4 -1 50 4 9 1024 1 1 1 1 1 1 -1 -1"), cpus_per_pod=2).jobs
    assert job.pods == (JobPods(2, {"cpu": 2000, "memory": 2 * 1024 * 1024}),)


# openb: cards, parts of them, models; run time is from scheduled_time to deletion_time.
ROWS = [
    ("a,8000,1024,1,1000,,LS,Succeeded,10,100,40", ({"cpu": 8000, "memory": 1024 * MIB, GPU: 1}, 60, (), 0)),
    ("a,8000,1024,1,460,V100M16|T4,BE,Succeeded,10,100,10", ({"cpu": 8000, "memory": 1024 * MIB}, 90, ("V100M16", "T4"), 460)),
    ("a,1,1,0,0,,BE,Pending,10,100,", ({"cpu": 1, "memory": MIB}, None, (), 0)),
    ("a,1,1,8,1000,,BE,Running,10,,12", ({"cpu": 1, "memory": MIB, GPU: 8}, None, (), 0)),
]  # fmt: skip


@pytest.mark.parametrize(("row", "expected"), ROWS)
def test_a_pod_of_openb_is_a_job(row, expected):
    (job,) = read_openb(file(OPENB, row)).jobs
    requests, ran, models, share = expected
    assert (job.pods, job.seconds, job.models, job.share) == ((JobPods(1, requests),), ran, models, share)


def test_parts_of_cards_count_as_whole_ones_or_in_thousandths():
    trace = read_openb(file(OPENB, *(row for row, _ in ROWS)))
    whole = with_shares(trace, "whole")
    assert [job.asks(GPU) for job in whole.jobs] == [1, 1, 0, 8]
    milli = with_shares(trace, "milli")
    assert [job.asks(GPU_SHARE) for job in milli.jobs] == [1000, 460, 0, 8000]
    assert not any(job.asks(GPU) for job in milli.jobs)


def test_tasks_of_a_pai_job_start_together():
    jobs = file("j1,i,u1,Terminated,10,99", "j2,i,u2,Terminated,5,6", "j3,i,u,Terminated,1,2")
    tasks = file(
        "j1,worker,4.0,Terminated,10.0,90.0,600.0,30.0,50.0,T4",
        "j1,ps,1.0,Terminated,12.0,99.0,200.0,10.0,,CPU",
        "j2,tf,1.0,Running,5.0,,100.0,1.0,25.0,MISC",
        "j4,tf,1.0,Running,5.0,,100.0,1.0,25.0,MISC",
    )
    trace = read_pai(jobs, tasks)
    first, second = trace.jobs
    assert (first.submitted, first.seconds, first.models, first.size) == (10, 89, ("T4",), 5)
    assert [(one.count, one.requests.get(GPU, 0)) for one in first.pods] == [
        (4, 1),
        (1, 0),
    ]  # 50 % in a gang: rounded up
    assert (second.seconds, second.share, second.models) == (None, 250, ())
    assert trace.left_out == 1
    assert "j3 has no task" in trace.skipped[0]


def test_the_last_attempt_of_a_philly_job_tells_its_pods_and_all_attempts_its_time():
    text = """[{"jobid": "a", "vc": "v", "user": "u", "submitted_time": "2017-10-03 00:00:00", "status": "Pass",
      "attempts": [{"start_time": "2017-10-03 00:01:00", "end_time": "2017-10-03 00:02:00", "detail": [{"ip": "m", "gpus": ["0"]}]},
                   {"start_time": "2017-10-03 00:03:00", "end_time": "2017-10-03 00:05:00",
                    "detail": [{"ip": "m", "gpus": ["0", "1"]}, {"ip": "n", "gpus": ["0", "1"]}]}]},
      {"jobid": "b", "submitted_time": "2017-10-03 00:00:00", "attempts": []},
      {"jobid": "c", "submitted_time": "yesterday", "attempts": [{"start_time": "None", "end_time": null, "detail": [{"ip": "m", "gpus": ["0"]}]}]},
      17]"""
    trace = read_philly(io.BytesIO(text.encode()))
    (job,) = trace.jobs
    assert (job.seconds, job.queue) == (180, "v")
    assert job.pods == (JobPods(2, {GPU: 2, "cpu": 2 * CPUS_PER_GPU * 1000}),)
    assert [one.partition(":")[0] for one in trace.skipped] == ["entry 2", "entry 3", "entry 4"]


def test_a_helios_job_is_as_many_pods_as_it_had_nodes():
    row = "1,u,16,96,2,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:00:20,2020-04-01 01:00:20,3600,0,vc"
    (job,) = read_helios(file(HELIOS, row)).jobs
    assert (job.pods, job.seconds, job.queue) == ((JobPods(2, {GPU: 8, "cpu": 48_000}),), 3600, "vc")


def test_unknown_run_times_are_the_median_and_that_is_told():
    trace = completed(read_openb(file(OPENB, *(row for row, _ in ROWS))))
    assert [job.seconds for job in trace.jobs] == [60, 90, 75, 75]
    assert [job.submitted for job in trace.jobs] == [0, 0, 0, 0]
    assert dict(trace.filled) == {"run time unknown: the median of the others is taken (75 s)": 2}


def test_a_part_of_a_trace_is_even_and_a_faster_one_comes_closer():
    lines = [f"{n} {n * 10} -1 60 1 -1 -1 1 120 -1 1 1 1 1 1 1 -1 -1" for n in range(100)]
    trace = completed(read_swf(file(*lines), cpus_per_pod=8))
    part = thinned(trace, part=0.1, speed_up=2, most=5)
    assert [job.submitted for job in part.jobs] == [45, 95, 145, 195, 245]
    assert len(thinned(trace, part=0.33).jobs) == 33


HOSTILE = [
    ("1 0", "it has 2 fields, not 18"),
    ("x 0 0 9 4 -1 -1 4 9 -1 1 1 1 1 1 1 -1 -1", "job number must be a number, not 'x'"),
    ("1 nan 0 9 4 -1 -1 4 9 -1 1 1 1 1 1 1 -1 -1", "submit time is nan"),
    ("1 -5 0 9 4 -1 -1 4 9 -1 1 1 1 1 1 1 -1 -1", "submit time is -5"),
    ("1 1e300 0 9 4 -1 -1 4 9 -1 1 1 1 1 1 1 -1 -1", "submit time is 1e+300"),
    ("1 0 0 9 0 -1 -1 0 9 -1 1 1 1 1 1 1 -1 -1", "it asks for no processors"),
    ("1 0 0 9 9e14 -1 -1 9e14 9 -1 1 1 1 1 1 1 -1 -1", "pods, which must be within 1 and"),
    ("1 9e14 0 9 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1", "it was submitted at 9e+14 s"),
    ("1 0 0 9 1 -1 -1 1 9 9e14 1 1 1 1 1 1 -1 -1", "memory"),
    ("x" * (LONGEST_LINE + 10), "no UTF-8 text of at most"),
]  # fmt: skip
GOOD = "1 0 0 9 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1"


@pytest.mark.parametrize(("line", "said"), HOSTILE)
def test_a_bad_line_costs_itself_and_is_told_with_its_number(line, said):
    trace = read_swf(file(GOOD, line, GOOD), cpus_per_pod=8)
    assert (len(trace.jobs), trace.left_out) == (2, 1)
    assert trace.skipped[0].startswith("line 2: ")
    assert said in trace.skipped[0]


def test_of_many_bad_lines_only_the_first_are_told():
    trace = read_swf(file(*["bad"] * 100, GOOD), cpus_per_pod=8)
    assert (trace.left_out, len(trace.skipped), len(trace.jobs)) == (100, MOST_TOLD, 1)


def test_tables_tell_of_columns_that_are_missing_too_many_or_not_closed():
    trace = read_helios(io.BytesIO(f'{HELIOS}\n1,2\n"open,u\n\xff\n'.encode("latin-1")))
    assert [one.partition(":")[2] for one in trace.skipped] == [
        " it has 2 columns, not 12", " its quotation marks do not close", " it is no UTF-8 text of at most 65536 bytes",
    ]  # fmt: skip
    assert "there is no column gpu_num" in read_helios(file("a,b", "1,2")).skipped[0]
    with pytest.raises(TraceError, match="must name the columns"):
        read_helios(io.BytesIO(b""))


@pytest.mark.parametrize("text", [b"{}", b"", b"[" * 100_000, b"\xff\xfe", b'[{"jobid": 1}'])
def test_a_philly_log_that_is_none_is_refused(text):
    with pytest.raises(TraceError, match="no JSON array"):
        read_philly(io.BytesIO(text))


@given(st.binary(max_size=400))
def test_whatever_stands_in_a_trace_is_read_or_left_out(data):
    for read in (
        lambda f: read_swf(f, cpus_per_pod=8),
        read_openb,
        read_helios,
        read_philly,
        lambda f: read_pai(f, io.BytesIO(data)),
    ):
        try:
            found = read(io.BytesIO(data))
        except TraceError:
            continue
        assert isinstance(found, Trace)


@pytest.mark.parametrize(
    ("name", "kind", "jobs"),
    [
        ("campus.swf", "swf", 300),
        ("openb_pod_list.csv", "openb", 200),
        ("helios_cluster_log.csv", "helios", 300),
        ("philly_cluster_job_log.json", "philly", 146),
        ("pai", "pai", 120),
    ],
)
def test_the_traces_of_our_own_making_are_told_by_how_they_begin(name, kind, jobs):
    assert guessed(EXAMPLES / name) == kind
    trace = read_trace(EXAMPLES / name, "auto", cpus_per_pod=32)
    assert len(trace.jobs) == jobs
    assert all(job.seconds is not None for job in trace.jobs)


def test_a_trace_may_be_gzipped_and_one_that_nobody_knows_is_refused(tmp_path: Path):
    packed = tmp_path / "campus.swf.gz"
    packed.write_bytes(gzip.compress((EXAMPLES / "campus.swf").read_bytes()))
    assert len(read_trace(packed, "auto", cpus_per_pod=32).jobs) == 300
    unknown = tmp_path / "x"
    unknown.write_text("hello\n")
    with pytest.raises(TraceError, match="say it by --format: swf, openb"):
        read_trace(unknown, "auto", cpus_per_pod=1)
    with pytest.raises(TraceError, match="no job in it that can be read as swf; the first: line 1"):
        read_trace(unknown, "swf", cpus_per_pod=1)


@pytest.mark.parametrize(
    "name", ["campus.swf", "openb_pod_list.csv", "helios_cluster_log.csv", "philly_cluster_job_log.json"]
)
def test_a_mark_before_the_first_line_and_other_line_ends_change_nothing(tmp_path: Path, name: str):
    plain = (EXAMPLES / name).read_bytes()
    other = tmp_path / name
    other.write_bytes(b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n"))
    found, usual = (read_trace(path, "auto", cpus_per_pod=32) for path in (other, EXAMPLES / name))
    assert (found.jobs, found.skipped) == (usual.jobs, usual.skipped)


def test_what_is_packed_is_told_by_how_it_begins_and_what_is_cut_off_says_so(tmp_path: Path):
    packed, cut = tmp_path / "campus.swf", tmp_path / "cut.swf.gz"
    whole = gzip.compress((EXAMPLES / "campus.swf").read_bytes())
    packed.write_bytes(whole)
    cut.write_bytes(whole[: len(whole) // 2])
    assert len(read_trace(packed, "auto", cpus_per_pod=32).jobs) == 300
    for kind in ("auto", "swf"):
        with pytest.raises(TraceError, match="it ends in the middle, or is damaged"):
            read_trace(cut, kind, cpus_per_pod=32)


def test_tables_of_pai_may_be_gzipped_and_one_that_is_missing_is_named(tmp_path: Path):
    for name in ("pai_job_table.csv", "pai_task_table.csv"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((EXAMPLES / "pai" / name).read_bytes()))
    found, usual = (read_trace(path, "auto", cpus_per_pod=32) for path in (tmp_path, EXAMPLES / "pai"))
    assert found.jobs == usual.jobs
    (tmp_path / "pai_task_table.csv.gz").rename(tmp_path / "pai_task_table.tar.gz")
    with pytest.raises(TraceError, match=r"no pai_task_table\.csv in it, nor .*tar\.gz has to be unpacked first"):
        read_trace(tmp_path, "pai", cpus_per_pod=32)
    with pytest.raises(TraceError, match="a trace of PAI is a folder"):
        read_trace(tmp_path / "pai_job_table.csv.gz", "pai", cpus_per_pod=32)
