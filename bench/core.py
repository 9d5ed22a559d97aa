"""How long the engine takes, and how much memory: no API server, no I/O. Run by `make bench-core`.

Prints a table of medians over repeated runs and writes build/bench-core.json as {name: {median, min, max, unit}}.
Each run builds its cluster anew; only the decision, or the observations, are timed. On a machine that has other work,
TUTTI_BENCH_CLOCK=cpu measures processor time instead.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench import (
    admissions,
    company,
    decide,
    devices,
    numa,
    preemption,
    reclaim,
    shards,
    signals,
    topology,
    wake,
    wake_devices,
)
from tutti.cli.run import GC_THRESHOLDS

OUT = Path("build/bench-core.json")
BOUND = 50_000
FOR_ALL, SLOW = 7, 3


@dataclass(frozen=True)
class Measure:
    """One row: what is measured, in which unit, and what it should stay under (None: it is only watched).

    A rate should stay above its aim.
    """

    what: str
    unit: str
    run: Callable[[], float]
    aim: float | None = None
    slow: bool = False


def on_nodes(name: str, what: str, unit: str, run: Callable[[int], float], aim: float) -> dict[str, Measure]:
    """Rows of one measure on clusters of 500 to 20,000 nodes; the aim is for 5,000."""
    sizes = (5000, 500, 2000, 10_000, 20_000)
    return {
        name.format(size): Measure(
            f"{what}, {size:,} nodes", unit, lambda size=size: run(size), aim if size == 5000 else None, size > 5000
        )
        for size in sizes
    }


CLAIMS: dict[str, tuple[str, Callable[[], float], float | None]] = {
    "single_claims": (
        "1,000 equal single pods that claim a device, 1,000 nodes",
        partial(company.claims, 1000, 1000),
        2,
    ),
    "single_claims_bound": (
        "the same until they are bound: claims written and seen",
        partial(company.claims, 1000, 1000, bound=True),
        None,
    ),
    "single_extended": (
        "1,000 equal single pods with an extended resource that devices stand in for, 1,000 nodes",
        partial(company.extended, 1000, 1000),
        None,
    ),
    "gang10_claims": (
        "gangs of 10, each pod claims a device, 1,000 nodes",
        partial(company.claiming_gangs, 1000, 100, 10),
        None,
    ),
    "gang100_claims": (
        "gangs of 100, each pod claims a device, 1,000 nodes",
        partial(company.claiming_gangs, 1000, 10, 100),
        None,
    ),
}
"""What is measured of pods with claims, how, and what it should stay under."""


def beside_plain() -> dict[str, Measure]:
    """Rows of pods that mind where others are (5,000 nodes) or claim devices (1,000), as multiples of plain ones."""
    out: dict[str, Measure] = {}
    for shape in company.SHAPES:
        out[f"single_{shape}_nodes5000_times"] = Measure(
            f"1,000 equal single pods, {shape}", "times", partial(company.singles, shape, 5000, 1000), 2, slow=True
        )
        out[f"different_{shape}_nodes5000_times"] = Measure(
            f"300 different single pods, {shape}",
            "times",
            partial(company.singles, shape, 5000, 300, different=True),
            2,
            slow=True,
        )
    for shape in (*company.SHAPES, "topology"):
        for size in (10, 100):
            out[f"gang{size}_{shape}_nodes5000_times"] = Measure(
                f"gangs of {size}, {shape}",
                "times",
                partial(company.gangs, shape, 5000, 500 // size, size),
                2,
                slow=True,
            )
    for name, (what, run, aim) in CLAIMS.items():
        out[f"{name}_nodes1000_times"] = Measure(what, "times", run, aim, slow=True)
    return out


MEASURES: dict[str, Measure] = {
    **beside_plain(),
    **on_nodes("gang1000_nodes{}_ms", "gang of 1,000 equal pods", "ms", lambda nodes: decide.gang(nodes, 1000), 5),
    "gang1000_nodes5000_queue_ms": Measure(
        "the same from a queue, 5,000 nodes", "ms", lambda: decide.gang(5000, 1000, "queue")
    ),
    "gang1000_nodes5000_bound50000_ms": Measure(
        f"the same beside {BOUND:,} bound pods", "ms", lambda: decide.gang(5000, 1000, bound=BOUND), slow=True
    ),
    **on_nodes(
        "single_nodes{}_ms", "1,000 different single pods", "ms/pod", lambda nodes: decide.singles(nodes, 1000), 1
    ),
    **on_nodes(
        "equal_nodes{}_ms",
        "1,000 equal single pods",
        "ms/pod",
        lambda nodes: decide.singles(nodes, 1000, different=False),
        0.08,
    ),
    "equal_nodes5000_queue_ms": Measure(
        "the same from a queue, 5,000 nodes",
        "ms/pod",
        lambda: decide.singles(5000, 1000, different=False, queue="queue"),
    ),
    "single_nodes5000_bound50000_ms": Measure(
        f"the same beside {BOUND:,} bound pods", "ms/pod", lambda: decide.singles(5000, 1000, bound=BOUND), slow=True
    ),
    "spread1000_nodes5000_ms": Measure(
        "1,000 pods, strict zone spread, self anti-affinity",
        "ms",
        lambda: decide.spread(5000, 1000, "DoNotSchedule"),
        40,
    ),
    "softspread1000_nodes5000_ms": Measure(
        "1,000 pods, zone spread as far as it goes, self anti-affinity",
        "ms",
        lambda: decide.spread(5000, 1000, "ScheduleAnyway"),
        40,
    ),
    **{
        f"gang1000_rack_nodes{nodes}_ms": Measure(
            f"gang of 1,000 in one block of 1,250 nodes, {nodes:,} nodes",
            "ms",
            lambda nodes=nodes: topology.gang_in_rack(nodes),
            8 if nodes == 5000 else None,
            nodes > 5000,
        )
        for nodes in (5000, 500, 20_000)
    },
    "gang1000_rack_preferred_nodes5000_ms": Measure(
        "the same in as few racks of 16 nodes as will do",
        "ms",
        lambda: topology.gang_in_rack(5000, key="rack", mode="Preferred"),
    ),
    **{
        f"preempt_gang64_nodes{nodes}_ms": Measure(
            f"victims for a gang of 64 pods of 8 GPUs, {nodes:,} full nodes",
            "ms",
            lambda nodes=nodes: preemption.preempt_gang64(nodes),
            50 if nodes == 5000 else None,
            nodes > 5000,
        )
        for nodes in (5000, 500, 20_000)
    },
    "preempt_singles400_nodes1000_ms": Measure(
        "one of 400 single pods of which each takes out three of lower priority, 1,000 full nodes",
        "ms",
        lambda: preemption.preempt_singles(1000, 400),
        slow=True,
    ),
    "reclaim_borrower_running1900_ms": Measure(
        "a turn that tries one whose queue has no more of its own and takes back from borrowers; 1,900 run",
        "ms",
        lambda: reclaim.per_try(1900, borrows=True),
        10,
        slow=True,
    ),
    "reclaim_nowhere_running1900_ms": Measure(
        "the same of a queue with quota of its own left to take back, for nodes that nobody's leaving would give",
        "ms",
        lambda: reclaim.per_try(1900, borrows=False),
        slow=True,
    ),
    **{
        f"gang1000_{'_'.join(on) or 'bare'}_nodes5000_ms": Measure(
            f"gang of 1,000 in three roles that talk, with {', '.join(on) or 'nothing'} on, 5,000 nodes",
            "ms",
            lambda on=on: signals.gang(5000, 1000, on),
            10,
        )
        for on in ((), ("load",), ("throttles",), ("network",), ("load", "network", "throttles"))
    },
    "gang64_numa_nodes1000_ms": Measure(
        "gang of 64, each with the GPUs of a NUMA zone, 1,000 nodes that report", "ms", lambda: numa.gang(1000, 64), 30
    ),
    "gang64_devices_nodes1000_ms": Measure(
        "gang of 64, each claims the 8 GPUs of one island, 1,000 nodes", "ms", lambda: devices.gang(1000, 64), 30
    ),
    "gang64_devices_again_nodes1000_ms": Measure(
        "the same after another that asked the same", "ms", lambda: devices.gang(1000, 64, before=True), 15
    ),
    "single_devices_nodes1000_per_s": Measure(
        "single pods that claim a device by expressions of their own, 1,000 nodes",
        "1/s",
        lambda: devices.singles(1000, 1000),
        500,
    ),
    "network_devices_nodes100_pools2000_per_s": Measure(
        "single pods whose claims share devices of 2,000 pools of a network, 100 nodes",
        "1/s",
        lambda: devices.network(100, 2000, 2000),
        500,
    ),
    "preempt_devices_gang64_nodes1000_ms": Measure(
        "victims for a gang of 64 that claims 8 GPUs each, 1,000 nodes whose 8,000 GPUs others have",
        "ms",
        lambda: devices.preempt(1000, 64),
        slow=True,
    ),
    **{
        f"wake_shapes{count}_ms": Measure(
            f"a turn after one pod has ended, {count:,} unlike pods wait for nodes",
            "ms",
            lambda count=count: wake.shapes(count),
            aim,
            slow=True,
        )
        for count, aim in ((1000, 10), (5000, 30))
    },
    "wake_preempting1000_ms": Measure(
        "the same, 1,000 wait, and their queue may preempt where anybody is below them",
        "ms",
        lambda: wake.preempting_shapes(1000),
        10,
        slow=True,
    ),
    "wake_claims1000_ms": Measure(
        "a turn after one pod has ended, 1,000 unlike pods wait that mount what is bound to a claim",
        "ms",
        lambda: wake.claiming_shapes(1000),
        10,
        slow=True,
    ),
    "wake_separate1000_ms": Measure(
        "the same, where none of them may be on a node with another",
        "ms",
        lambda: wake.separate_shapes(1000),
        10,
        slow=True,
    ),
    "wake_near1000_ms": Measure(
        "the same, where each must be in a zone with one of its kind",
        "ms",
        lambda: wake.near_shapes(1000),
        10,
        slow=True,
    ),
    "wake_spread1000_ms": Measure(
        "the same, where they are spread strictly over zones",
        "ms",
        lambda: wake.spread_shapes(1000),
        10,
        slow=True,
    ),
    "wake_devices1000_ms": Measure(
        "a turn after one pod has ended and its claim was freed, 1,000 unlike pods wait that claim devices",
        "ms",
        lambda: wake_devices.claiming_devices(1000),
        10,
        slow=True,
    ),
    "wake_reserved1000_ms": Measure(
        "the same, 1,000 wait in a queue that keeps room for its head, and the head starts",
        "ms",
        lambda: wake.shapes_behind_heads(1000),
        10,
        slow=True,
    ),
    "wake_burst400_ms": Measure(
        "a turn after 400 pods have ended at once, 1,000 unlike pods wait for nodes",
        "ms",
        lambda: wake.burst(1000, 400),
        slow=True,
    ),
    "wake_namespace1000_ms": Measure(
        "a turn after a namespace and its LocalQueue were made, 1,000 unlike pods of others wait for nodes",
        "ms",
        lambda: wake.namespaces(1000),
        10,
        slow=True,
    ),
    **{
        f"wake_queues{count}_ms": Measure(
            f"the same, somebody waits for quota in each of {count:,} ClusterQueues of one cohort",
            "ms",
            lambda count=count: wake.queues(count),
            aim,
            slow=True,
        )
        for count, aim in ((1000, 3), (5000, 8))
    },
    "wake_fair_queues1000_ms": Measure(
        "the same, and these 1,000 compete by fair shares",
        "ms",
        lambda: wake.fair_queues(1000),
        3,
        slow=True,
    ),
    **{
        f"first_decide_fair_queues{count}_ms": Measure(
            f"the first turn in which somebody in each of {count:,} ClusterQueues is tried that compete by fair shares",
            "ms",
            lambda count=count: wake.first_fair_queues(count),
            slow=True,
        )
        for count in (1000, 4000)
    },
    "first_decide_shapes5000_ms": Measure(
        "the first turn in which 10,000 pods of 5,000 shapes are looked at that lack nodes",
        "ms",
        lambda: wake.first_shapes(5000),
        5000,
        slow=True,
    ),
    "gang1000_nodes50000_ms": Measure(
        "gang of 1,000 equal pods, 50,000 nodes", "ms", lambda: decide.gang(50_000, 1000), 25, slow=True
    ),
    "admissions_per_s": Measure(
        "workloads through 1,000 ClusterQueues, 50,000 pending",
        "1/s",
        admissions.per_second,
        2000,
        slow=True,
    ),
    "pod_update_us": Measure("one pod update, 10,000 bound pods", "µs", lambda: decide.pod_update(5000, 10_000), 20),
    "passed_over_us": Measure("the same of another shard's pod", "µs", lambda: shards.passed_over(10_000)),
    "memory_pods100000_nodes20000_mb": Measure(
        "memory of 100,000 bound pods in gangs of 100, 20,000 nodes",
        "MB",
        lambda: decide.memory(20_000, 100_000),
        300,
        slow=True,
    ),
    "memory_strangers100000_nodes20000_mb": Measure(
        "the same, pods of another scheduler",
        "MB",
        lambda: decide.memory(20_000, 100_000, scheduler="default-scheduler", gangs=False),
        300,
        slow=True,
    ),
    "memory_singles100000_nodes20000_mb": Measure(
        "the same, each pod a workload of its own",
        "MB",
        lambda: decide.memory(20_000, 100_000, gangs=False),
        slow=True,
    ),
}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, help=f"of each measure; else {FOR_ALL}, of slow ones {SLOW}")
    parser.add_argument("--only", default="", help="measure only what has this in its name")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)  # as in the operator
    chosen = {name: one for name, one in MEASURES.items() if options.only in name}
    if not chosen:
        parser.error(f"no measure has {options.only!r} in its name; there are {', '.join(MEASURES)}")
    found: dict[str, dict[str, float | str]] = {}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(chosen))
        for name, one in chosen.items():
            progress.update(task, description=name)
            runs = [one.run() for _ in range(options.runs or (SLOW if one.slow else FOR_ALL))]
            found[name] = {"median": statistics.median(runs), "min": min(runs), "max": max(runs), "unit": one.unit}
            progress.advance(task)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    if options.output == "json":
        print(json.dumps(found, indent=2))  # noqa: T201 - a command's output
    else:
        Console().print(_table(found))


def _table(found: dict[str, dict[str, float | str]]) -> Table:
    table = Table(title=f"The engine alone ({OUT})")
    table.add_column("name", no_wrap=True, min_width=max(map(len, found)))
    for head in ("median", "min", "max"):
        table.add_column(head, no_wrap=True, justify="right", min_width=6)
    table.add_column("unit", no_wrap=True, min_width=6)
    table.add_column("aim", no_wrap=True, min_width=5)
    if wide := Console().width > 150:
        table.add_column("what", no_wrap=True)
    for name, row in found.items():
        one = MEASURES[name]
        numbers = (f"{row[key]:,.2f}" for key in ("median", "min", "max"))
        rate = one.unit == "1/s"
        met = one.aim is not None and (float(row["median"]) > one.aim) == rate
        aim = "" if one.aim is None else f"[{'green' if met else 'red'}]{'>' if rate else '<'} {one.aim:g}[/]"
        table.add_row(name, *numbers, one.unit, aim, *([one.what] if wide else []))
    return table


if __name__ == "__main__":
    main()
