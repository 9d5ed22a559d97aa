"""Kubernetes' own scheduler_perf files, unmodified, by Tutti and a kube-scheduler on one real API server; one table.

`python -m bench.upstream FOLDER` takes the folder `test/integration/scheduler_perf` of Kubernetes' source, and the
binaries from KUBEBUILDER_ASSETS (kube-apiserver, etcd, kube-controller-manager, kube-scheduler). Files are run one
after the other, each on a server of its own, by one scheduler and then by the other, so that what else the machine does
falls on both.
Of each scenario one workload is run: of those with at most `--most` objects in all the one nearest to `--size`;
with `--only REGEX` all of that name. Figures are pods per second over all the time, and processor time of the
scheduler for each pod. With `--drain` the scheduler stands still while pods that are measured are created, so that the
pace is its own; otherwise the API server and whoever creates the pods often set it. Neither client has a limit to
its requests (`stage.py`), as in scheduler_perf. With `--floor` the columns of kube-scheduler are those of a program
that makes its writes for each pod, with a claim or without, and decides nothing (`claim_floor.py`).
With `--runs N` each has N turns, each of the two is first in as many, and figures are medians: whoever is first finds
a server that has just started, which shows where a workload is over after some milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

import msgspec

from bench.envtest import claim_controller
from e2e.harness.clusters import envtest
from e2e.harness.processes import running
from tutti_bench.document import Scenario, Workload, load_scenarios
from tutti_bench.measuring import CPU, OVERALL
from tutti_bench.outcomes import SCHEDULER
from tutti_bench.results import DataItem, DataItems, figure_text
from tutti_bench.stage import KUBE_SCHEDULER

NAME = "performance-config.yaml"
SERVED = "--runtime-config=resource.k8s.io/v1alpha3=true"
"""Device taint rules, as scheduler_perf's own API server has them."""
MINE = "tutti"
FLOOR = "floor"
_WHO = MINE, KUBE_SCHEDULER
OUT = Path("build/bench-upstream.md")


def main() -> int:
    """Run what was asked for, and print and write the table; 1 where a workload could not be run to its end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="test/integration/scheduler_perf, or a folder within it")
    parser.add_argument("--drain", action="store_true")
    parser.add_argument("--only", default="", metavar="REGEX", help="by <scenario>/<workload>")
    parser.add_argument("--size", type=int, default=1200)
    parser.add_argument("--most", type=int, default=7000)
    parser.add_argument("--runs", type=int, default=1, help="turns of each; even, for each to be first as often")
    parser.add_argument("--alone", action="store_true", help="without kube-scheduler")
    parser.add_argument("--floor", action="store_true", help="a program that decides nothing in kube-scheduler's place")
    options = parser.parse_args()
    assets = binaries()
    if assets is None:
        return 0
    files = {file: list(_chosen(file, options)) for file in sorted(options.folder.rglob(NAME))}
    files = {file: names for file, names in files.items() if names}
    if not files:
        parser.error(f"no {NAME} below {options.folder} has such a workload")
    OUT.parent.mkdir(exist_ok=True)
    code = 0
    with OUT.open("w", encoding="utf-8") as out:
        _tell(_heading(), out)
        for file, names in files.items():
            items, ended = run(file, names, assets, _against(options), drains=options.drain, runs=options.runs)
            _tell(_lines(items), out)
            code = max(code, ended)
    return code


def binaries() -> Path | None:
    """Return the folder with what these benchmarks start; None, and say so, where there is none."""
    assets = Path(os.environ.get("KUBEBUILDER_ASSETS", ""))
    if (assets / "kube-scheduler").is_file():
        return assets
    lacking = "kube-apiserver, etcd, kube-scheduler and kube-controller-manager"
    print(f"skipped: set KUBEBUILDER_ASSETS to a folder with {lacking}")  # noqa: T201
    return None


def _against(options: argparse.Namespace) -> str | None:
    if options.alone:
        return None
    return FLOOR if options.floor else KUBE_SCHEDULER


def run(
    file: Path, names: Sequence[str], assets: Path, against: str | None, *, drains: bool, runs: int = 1
) -> tuple[list[DataItem], int]:
    """Run workloads of a file on an API server of their own; return what was found, and the exit code.

    Args:
        file: Of scheduler_perf's kind.
        names: Of the workloads, as `<scenario>/<workload>`.
        assets: The folder with the binaries.
        against: KUBE_SCHEDULER or FLOOR, which goes second in each workload; None for Tutti alone.
        runs: Times that each has its turn, and each begins as often; figures are medians.
        drains: Whether the scheduler stands still while pods that are measured are created.
    """
    command = [sys.executable, "-m", "tutti", "bench", "run", str(file), "--operator", "-o", "json"]
    command += ["--only", f"^({'|'.join(map(re.escape, names))})$", *(["--drain"] if drains else [])]
    command += ["--runs", str(runs)]
    with (
        tempfile.TemporaryDirectory(prefix="tutti-bench-") as folder,
        envtest(Path(folder), assets, nodes=0, arguments=[SERVED]) as up,
        running(claim_controller(assets, up), Path(folder) / "claims.log"),
    ):
        command += ["--kubeconfig", str(up.kubeconfig)]
        if against is not None:
            other = _floor(Path(folder)) if against == FLOOR else assets / "kube-scheduler"
            command += ["--against", f"{KUBE_SCHEDULER}={other}"]
        ended = subprocess.run(command, check=False, stdout=subprocess.PIPE)
    items: list[DataItem] = []
    with contextlib.suppress(msgspec.DecodeError):  # nothing was found; what was wrong is on stderr
        items = msgspec.json.decode(ended.stdout, type=DataItems).data_items
    return items, ended.returncode


def _floor(folder: Path) -> Path:
    """Write what starts the floor of pods with claims as a kube-scheduler is started."""
    program = folder / "floor"
    program.write_text(f'#!/bin/sh\ncd {Path.cwd()} && exec {sys.executable} -m bench.claim_floor "$@"\n', "utf-8")
    program.chmod(0o755)
    return program


def _chosen(file: Path, options: argparse.Namespace) -> Iterator[str]:
    """Give the names of the workloads of a file that are run."""
    for scenario in load_scenarios(file):
        workloads = [one for one in scenario.workloads if re.search(options.only, _name(scenario, one))]
        if not options.only:
            fit = [one for one in workloads if _objects(one) <= options.most]
            workloads = [min(fit, key=lambda one: abs(math.log(_objects(one) / options.size)))] if fit else []
        yield from (_name(scenario, one) for one in workloads)


def _name(scenario: Scenario, workload: Workload) -> str:
    return f"{scenario.name}/{workload.name}"


def _objects(workload: Workload) -> int:
    """How many objects a workload speaks of, more or less: the sum of its numbers."""
    return sum(one for one in workload.params.values() if isinstance(one, int)) or 1


def _tell(lines: Iterable[str], out: TextIO) -> None:
    """Print lines, and write them, as soon as they are there."""
    text = "".join(f"{line}\n" for line in lines)
    out.write(text)
    out.flush()
    print(text, end="", flush=True)  # noqa: T201 - a command's output


def _heading() -> Iterator[str]:
    columns = [f"{who}, {unit}" if who else "ratio" for unit in ("pods/s", "ms/pod") for who in (*_WHO, "")]
    yield f"| {' | '.join(['workload', *columns])} |"
    yield "|---|---:|---:|---:|---:|---:|---:|"


def _lines(found: Sequence[DataItem]) -> Iterator[str]:
    """Give a line of the table, in Markdown, for each measurement."""
    figures = {(one.name, one.metric, whose(one)): one.data.get("Average") for one in found}
    for name in dict.fromkeys(one.name for one in found):
        cells = [name]
        for metric in (OVERALL, CPU):
            mine, theirs = (figures.get((name, metric, who)) for who in _WHO)
            ratio = mine / theirs if mine and theirs else None
            cells += [*map(figure_text, (mine, theirs)), f"{ratio:.2f}" if ratio else "-"]
        yield f"| {' | '.join(cells)} |"


def whose(one: DataItem) -> str:
    """Return whose figure it is: only where there is another scheduler, it says so."""
    said = one.labels.get(SCHEDULER)
    return said if said in _WHO else MINE


if __name__ == "__main__":
    sys.exit(main())
