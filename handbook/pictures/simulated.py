"""What `tutti simulate` came to where that takes minutes: orders of a queue, flavors, and a learned score.

`make pictures` plays them again and keeps the figures in `docs/pictures/simulated.json`; pictures and tables are drawn
of these, so that a test can hold the pages to them without playing all of it.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from click.testing import CliRunner

from handbook.pictures.page import Made
from tutti.cli.main import cli
from tutti_simulate.pictures import shares
from tutti_simulate.plots import Line, Plot, drawn

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "simulate"
FIRST_COME: Final = "first come, first served"
ORDERS: Final = (
    FIRST_COME, "Age", "Shortest", "ResponseRatio", "Longest", "Share", "Demand", "DemandAndShare", "Smallest",
    "Largest", "Progress",
)  # fmt: skip
TRACES: Final[Mapping[str, tuple[str, str, str, tuple[str, ...]]]] = {
    "campus": ("campus.swf", "cpus.yaml", "batch", ()),
    "helios": ("helios_cluster_log.csv", "one-queue.yaml", "gpus", ("--speed-up", "2")),
}
"""The file, the cluster, its queue, and what else is said."""
MADE: Final = ("--progress", "0:1")
"""How much progress jobs say that they still make; traces do not tell."""
BOUND: Final = 21_600
SHOWN: Final = (FIRST_COME, "Shortest", "Share", "Largest")
_POINTS: Final = 120
Figures = dict[str, Any]


def simulated(*words: object) -> Figures:
    """Return the answer of `tutti simulate`.

    Raises:
        RuntimeError: It did not answer; what it said.
    """
    done = CliRunner().invoke(cli, ["simulate", *map(str, words), "-o", "json"])
    if done.exit_code not in (0, 1):
        raise RuntimeError(done.output)
    answer: Figures = json.loads(done.stdout)
    return answer


def _waits(jobs: Path, run: str, column: str = "wait") -> list[list[float]]:
    """Return which part of the jobs of a run had at most so much of something, thinned."""
    with jobs.open(encoding="utf-8") as lines:
        rows = [one for one in csv.DictReader(lines) if one["run"] == run]
    return _thin(shares([_of(one, column) for one in rows]))


def _of(row: Mapping[str, str], column: str) -> float:
    if column == "stay":
        return float(row["ended"]) - float(row["submitted"])
    return float(row[column])


def _thin(points: Sequence[tuple[float, float]]) -> list[list[float]]:
    places = sorted({round(number * (len(points) - 1) / _POINTS) for number in range(_POINTS + 1)}) if points else []
    return [[round(value, 2) for value in points[place]] for place in places]


# orders


def order_of(trace: str, order: str) -> Figures:
    """Play one trace by one order."""
    file, cluster, queue, more = TRACES[trace]
    base = [EXAMPLES / file, "--cluster", EXAMPLES / cluster, "--cluster", EXAMPLES / "users.yaml"]
    with tempfile.TemporaryDirectory() as folder:
        jobs = Path(folder) / "jobs.csv"
        words = [*base, "--queue", f"*={queue}", *more, *MADE, "--jobs", jobs]
        if order != FIRST_COME:
            path = Path(folder) / "order.yaml"
            path.write_text(yaml.safe_dump(_ordered(EXAMPLES / cluster, queue, order)), "utf-8")
            words += ["--cluster", path]
        every = simulated(*words)["runs"]["first"]["all"]
        wait = every["wait"]
        return {
            "mean": wait["mean"], "p95": wait["p95"], "most": wait["most"], "slowdown": every["slowdown"]["mean"],
            "waits": _waits(jobs, "first"), "halves": _waits_by_progress(jobs),
        }  # fmt: skip


def _waits_by_progress(jobs: Path) -> list[float]:
    """Return how long those waited in the mean that make less than half of their progress, and all others, seconds."""
    halves: tuple[list[float], list[float]] = ([], [])
    with jobs.open(encoding="utf-8") as lines:
        for one in csv.DictReader(lines):
            halves[float(one["progress"]) >= 1 / 2].append(float(one["wait"]))
    return [round(sum(waits) / len(waits), 2) for waits in halves]


def _ordered(cluster: Path, queue: str, order: str) -> Figures:
    """Return the queue of a cluster, with an order."""
    documents = yaml.safe_load_all(cluster.read_text("utf-8"))
    found: Figures = next(
        one for one in documents if one.get("kind") == "ClusterQueue" and one["metadata"]["name"] == queue
    )
    found["spec"]["ordering"] = {"factors": [{"factor": order}], "maxWaitSeconds": BOUND}
    return found


def orders() -> Figures:
    """Play both traces by all orders."""
    return {trace: {order: order_of(trace, order) for order in ORDERS} for trace in TRACES}


def draw_orders(found: Figures) -> Made:
    """Return the picture and the table of docs/howto/orders.md."""
    lines = [Line(order, found["helios"][order]["waits"]) for order in SHOWN]
    picture = drawn(Plot("jobs that waited at most so long, helios", "wait", "% of jobs", lines, 100.0))
    heads = " | ".join(f"{trace}: mean wait, min | 95 %, h | longest, h | slowdown" for trace in TRACES)
    rows = [f"| order | {heads} |", f"|{'---|' * 9}"]
    for order in ORDERS:
        cells = (
            f"{one['mean'] / 60:.1f} | {one['p95'] / 3600:.1f} | {one['most'] / 3600:.1f} | {one['slowdown']:.2f}"
            for one in (found[trace][order] for trace in TRACES)
        )
        name = order if order == FIRST_COME else f"`{order}`"
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return Made({"orders-waits.svg": picture}, "\n".join(rows) + "\n")


# flavors

FLAVORS: Final = (
    "--cluster", EXAMPLES / "two-kinds.yaml", "--against", EXAMPLES / "earliest-finish.yaml",
    "--speed", "a100=1", "--speed", "t4=0.2:0.9", "--speed-up", 2,
)  # fmt: skip
NAMES: Final = {"first": "by the order of flavors", "second": "EarliestFinish"}


def flavors() -> Figures:
    """Play the run of docs/howto/flavors.md."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = Path(folder) / "jobs.csv"
        answer = simulated(EXAMPLES / "helios_cluster_log.csv", *FLAVORS, "--jobs", jobs)
        stays = {run: _waits(jobs, run, "stay") for run in NAMES}
    return {"differences": answer["differences"], "stays": stays}


def draw_flavors(found: Figures) -> Made:
    """Return the picture and the table of that page."""
    lines = [Line(name, found["stays"][run]) for run, name in NAMES.items()]
    picture = drawn(
        Plot("jobs that had ended so long after they were submitted", "submission to end", "% of jobs", lines, 100.0)
    )
    return Made({"flavors-ends.svg": picture}, _differences(found["differences"]))


def _differences(found: Sequence[Figures]) -> str:
    rows = ["| what | first | second | difference | 95 % of draws |", "|---|---|---|---|---|"]
    for one in found:
        within = "" if one["low"] is None else f"{one['low']:+,.2f} to {one['high']:+,.2f}"
        rows.append(
            f"| {one['what']} | {one['first']:,.2f} | {one['second']:,.2f} | {one['difference']:+,.2f} | {within} |"
        )
    return "\n".join(rows) + "\n"


# elastic gangs

ELASTIC: Final = (
    EXAMPLES / "campus.swf", "--cluster", EXAMPLES / "cpus.yaml", "--cluster", EXAMPLES / "users.yaml",
    "--queue", "*=batch", "--cpus-per-pod", 8,
)  # fmt: skip
SIZES: Final = {
    "whole": "with all pods",
    "first": "elastic, in turn",
    "second": "elastic, by speed that jobs say",
    "learned": "elastic, by speed that is learned (`--silent`)",
}


def elastic() -> Figures:
    """Play the runs of docs/howto/elastic.md."""
    with tempfile.TemporaryDirectory() as folder:
        jobs, rigid = Path(folder) / "jobs.csv", Path(folder) / "rigid.csv"
        whole = simulated(*ELASTIC, "--jobs", rigid)
        by_speed = ("--elastic", 0.25, "--against", EXAMPLES / "by-speed.yaml", "--jobs")
        answer = simulated(*ELASTIC, *by_speed, jobs)
        stays = {"whole": _waits(rigid, "first", "stay"), **{run: _waits(jobs, run, "stay") for run in answer["runs"]}}
        mean = {"whole": _mean_stay(rigid, "first"), **{run: _mean_stay(jobs, run) for run in answer["runs"]}}
        silent = simulated(*ELASTIC, "--silent", *by_speed, jobs)["runs"]["second"]
        mean["learned"] = _mean_stay(jobs, "second")
    runs = {"whole": whole["runs"]["first"], **answer["runs"], "learned": silent}
    figures = {
        run: {
            "wait": one["all"]["wait"]["mean"], "slowdown": one["all"]["slowdown"]["mean"], "stay": mean[run],
            "cpu": one["utilisation"]["cpu"],
        }
        for run, one in runs.items()
    }  # fmt: skip
    return {"differences": answer["differences"], "stays": stays, "runs": figures}


def _mean_stay(jobs: Path, run: str) -> float:
    with jobs.open(encoding="utf-8") as lines:
        stays = [_of(one, "stay") for one in csv.DictReader(lines) if one["run"] == run]
    return round(sum(stays) / len(stays), 2)


def draw_elastic(found: Figures) -> Made:
    """Return the picture and the table of that page."""
    lines = [Line(name, found["stays"][run]) for run, name in SIZES.items() if run in found["stays"]]
    picture = drawn(
        Plot("jobs that had ended so long after they were submitted", "submission to end", "% of jobs", lines, 100.0)
    )
    rows = [
        "| jobs run | mean wait, min | submission to end, min | slowdown | processors in use, % |",
        f"|{'---|' * 5}",
    ]
    for run, name in SIZES.items():
        one = found["runs"][run]
        cells = f"{one['wait'] / 60:.1f} | {one['stay'] / 60:.1f} | {one['slowdown']:.2f} | {100 * one['cpu']:.1f}"
        rows.append(f"| {name} | {cells} |")
    return Made({"elastic-ends.svg": picture}, "\n".join(rows) + "\n")


# learned scores

LEARN: Final = ("--cluster", EXAMPLES / "gpus.yaml", "--rounds", 2, "--draws", 6)


def learned() -> Figures:
    """Learn a score on the first three fifths of a trace, and play all of it with and without."""
    trace = EXAMPLES / "helios_cluster_log.csv"
    with tempfile.TemporaryDirectory() as folder:
        policy, with_it, jobs = Path(folder) / "policy.json", Path(folder) / "learned.yaml", Path(folder) / "jobs.csv"
        answer = simulated(trace, *LEARN, "--learn", policy)["learned"]
        if not policy.exists():
            raise RuntimeError("what was learned did not gain: nothing to show")
        score = {"file": str(policy), "weight": answer["policy"]["trained"]["weight"]}
        profiles = [{"schedulerName": "tutti", "learnedScore": score}]
        document = {
            "apiVersion": "scheduling.tutti.dev/v1alpha1", "kind": "TuttiConfiguration", "profiles": profiles,
        }  # fmt: skip
        with_it.write_text(yaml.safe_dump(document), "utf-8")
        simulated(trace, *LEARN[:2], "--against", with_it, "--jobs", jobs)
        waits = {run: _waits(jobs, run) for run in ("first", "second")}
    return {"unseen": answer["unseen"], "seen": answer["seen"], "waits": waits}


def draw_learned(found: Figures) -> Made:
    """Return the picture of docs/howto/simulate.md: a trace with the learned score and without."""
    names = {"first": "without", "second": "with the learned score"}
    lines = [Line(name, found["waits"][run]) for run, name in names.items()]
    picture = drawn(Plot("jobs that waited at most so long", "wait", "% of jobs", lines, 100.0))
    return Made({"learned-waits.svg": picture})


PLAYED: Final[Mapping[str, tuple[Callable[[], Figures], Callable[[Figures], Made]]]] = {
    "orders": (orders, draw_orders),
    "flavors": (flavors, draw_flavors),
    "elastic": (elastic, draw_elastic),
    "learned": (learned, draw_learned),
}
"""What is played, and how it is drawn."""
DATA = ROOT / "docs" / "pictures" / "simulated.json"


def kept() -> Figures:
    """Return the figures as they were last played."""
    found: Figures = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {}
    return found


def keep(found: Figures) -> None:
    """Write them."""
    DATA.write_text(json.dumps(found, separators=(",", ":"), sort_keys=True) + "\n", "utf-8")


def play(names: Sequence[str]) -> Iterator[str]:
    """Play some of them anew, and keep their figures; yields each name when it is done."""
    for name in names:
        keep({**kept(), name: PLAYED[name][0]()})
        yield name
