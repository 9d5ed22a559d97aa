"""A simulated week of 15,000 workloads in 30 ClusterQueues, or one of Kueue's own tests. Run by `make bench-week`.

The engine runs in virtual time around a deterministic cluster (`simulation/`). What arrives is the mix of Kueue's
published performance test, in slow motion so that its minute takes a week; `--mix baseline`, `tas` and `large-scale`
are these tests as they are, with as many writes per second as Kueue's client is allowed there. Prints time to admission
per class next to Kueue's thresholds, slowed down alike, and exits 1 where anything happened that must not.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.simulation.mixes import MIXES, PREEMPTION, WEEK, Mix
from bench.simulation.running import Findings, Rules, simulate

DAY = WEEK / 7
GRACE = {"week": 30.0}
"""How long pods take to end by default, seconds, by mix; in Kueue's own tests there are none."""


def main() -> None:
    """Simulate, print, and say whether all went as it must."""
    options = _options()
    mix = MIXES[options.mix].part(options.part).stretched(options.stretch)
    if options.qps is not None:
        mix = mix.capped(options.qps)
    rules = Rules(
        strict=options.strict,
        fair=options.fair,
        known=options.known_times,
        queue=options.queue,
        grace=GRACE.get(mix.name, 0.0) if options.grace is None else options.grace,
        recount=options.recount,
    )
    with ExitStack() as stack:
        journal = stack.enter_context(options.journal.open("wb")) if options.journal else None
        found = _simulate(mix, rules, journal)
    if options.output == "json":
        print(json.dumps(_as_json(mix, found), indent=2))  # noqa: T201 - a command's output
    else:
        _print(mix, found)
    sys.exit(1 if found.found else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mix", choices=list(MIXES), default="week", help="what arrives (default: %(default)s)")
    parser.add_argument("--part", type=float, default=1.0, help="only so much of it, of 1: the first part")
    parser.add_argument("--stretch", type=float, default=1.0, help="slow everything down so many times")
    parser.add_argument("--qps", type=float, help="writes to the API server per second; 0: no limit")
    parser.add_argument("--strict", action="store_true", help="queues are StrictFIFO, not BestEffortFIFO")
    parser.add_argument("--fair", action="store_true", help="cohorts are shared fairly")
    parser.add_argument("--known-times", action="store_true", help="workloads say how long they take at most")
    parser.add_argument("--no-preemption", action="store_true", help="nobody is taken out for anybody")
    parser.add_argument("--queue", help="what else the spec of each ClusterQueue says, JSON; instead of preemption")
    parser.add_argument("--grace", type=float, help="how long pods take to end when told to, seconds (week: 30)")
    parser.add_argument("--recount", type=int, default=1000, help="count everything anew every so many turns")
    parser.add_argument("--journal", type=Path, help="write a journal for `tutti replay` (for a whole week, gigabytes)")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    options.queue = json.loads(options.queue) if options.queue else {} if options.no_preemption else PREEMPTION
    if options.known_times and options.queue.get("preemption"):
        parser.error(
            "--known-times needs queues without preemption: a run that was ended early counts towards the time"
        )
    return options


def _simulate(mix: Mix, rules: Rules, journal: BinaryIO | None) -> Findings:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(mix.name, total=mix.total)

        def told(over: int, seconds: float) -> None:
            progress.update(task, completed=over, description=f"{mix.name}, {_time(seconds)}")

        return simulate(mix, rules, journal, told)


def _print(mix: Mix, found: Findings) -> None:
    out = Console(highlight=False, soft_wrap=True)
    title = f"{mix.name}: {mix.total:,} workloads in {len(mix.queue_names)} ClusterQueues, time to admission"
    table = Table(title=title)
    table.add_column("class")
    for head in ("count", "mean", "Kueue's", "99 %", "at first", "evicted", "most"):
        table.add_column(head, justify="right", no_wrap=True)
    for one in found.kinds.values():
        if one.waits:
            met = "green" if one.mean <= one.kind.most else "red"
            first = sum(one.first_waits) / len(one.first_waits)
            times = (f"[{met}]{_time(one.mean)}[/]", _time(one.kind.most), _time(one.p99), _time(first))
            table.add_row(one.kind.name, f"{len(one.waits):,}", *times, f"{one.evictions:,}", f"{one.most_evictions}")
    out.print(table)
    used = "green" if found.usage >= mix.least_usage else "red"
    out.print(f"quota in use      [{used}]{found.usage:.1%}[/] (Kueue wants {mix.least_usage:.1%} at least)")
    within = "green" if found.lasted <= mix.wall else "red"
    out.print(f"all over after    [{within}]{_time(found.lasted)}[/] (Kueue allows {_time(mix.wall)})")
    out.print(f"work lost         {found.lost:.1%} with runs that were ended early")
    each = found.evaluated / max(1, found.admissions)
    out.print(f"evaluations       {each:.2f} per admission ({found.evaluated:,} for {found.admissions:,})")
    decisions = ", ".join(f"{count:,} {name}" for name, count in sorted(found.decisions.items()))
    out.print(f"decisions         {decisions}")
    rate = found.admissions / found.deciding
    out.print(
        f"the engine took   {found.observing:.1f} s for what it saw, {found.deciding:.1f} s for {found.turns:,} turns "
        f"({rate:,.0f} admissions/s), of {found.wall:.1f} s"
    )
    verdict = "[green]none[/]" if not found.found else f"[red]{found.found}[/]"
    out.print(
        f"violations        {verdict} (after each of {found.turns:,} turns; all counted anew {found.recounts} times)"
    )
    for text in found.violations:
        out.print(f"  {text}", markup=False)


def _as_json(mix: Mix, found: Findings) -> dict[str, Any]:
    kinds = {
        one.kind.name: {
            "workloads": len(one.waits),
            "admitted_after_s": one.mean,
            "kueue_allows_s": one.kind.most,
            "p99_s": one.p99,
            "first_admitted_after_s": sum(one.first_waits) / len(one.first_waits),
            "evictions": one.evictions,
            "most_evictions": one.most_evictions,
        }
        for one in found.kinds.values()
        if one.waits
    }
    return {
        "mix": mix.name,
        "classes": kinds,
        "usage": found.usage,
        "kueue_wants_usage": mix.least_usage,
        "lasted_s": found.lasted,
        "kueue_allows_lasted_s": mix.wall,
        "work_lost": found.lost,
        "evaluations_per_admission": found.evaluated / max(1, found.admissions),
        "observing_s": found.observing,
        "deciding_s": found.deciding,
        "wall_s": found.wall,
        "turns": found.turns,
        "decisions": found.decisions,
        "violations": found.found,
        "violations_in_words": found.violations,
    }


def _time(seconds: float) -> str:
    """Seconds as a person says them."""
    for unit, size in (("d", DAY), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


if __name__ == "__main__":
    main()
