"""`tutti bench`: scheduler_perf's YAML against any cluster and any scheduler; `tutti bench compare`: two results."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from tutti.cli.grouping import CommandGroup
from tutti.kube.credentials import current_kubeconfig
from tutti_bench import outcomes
from tutti_bench.document import DocumentError, Filter, load_scenarios
from tutti_bench.results import NoDataItems, compared, markdown, read_data_items
from tutti_bench.run import Limits
from tutti_bench.session import Task, prepare
from tutti_bench.stage import KUBE_SCHEDULER, REFERENCE_NAME, Contender
from tutti_bench.templates import TemplateError

_USAGE = 2
_FILE = click.Path(path_type=Path, dir_okay=False)
_LONGEST = Limits()


class _Bench(CommandGroup):
    """A group whose name alone runs files, so that `tutti bench FILE.yaml` needs no further word."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.command("bench", cls=_Bench)
def command() -> None:
    """Measure a scheduler with the YAML of Kubernetes' scheduler_perf, from outside.

    `tutti bench FILE.yaml` is short for `tutti bench run FILE.yaml`.
    """


@command.command("run")
@click.argument("files", nargs=-1, required=True, type=_FILE)
@click.option("--kubeconfig", type=_FILE, help="Cluster to run on; the current one if nothing is given.")
@click.option("--embedded", is_flag=True, help="Run on an embedded cluster of its own, with Tutti.")
@click.option("--operator", is_flag=True, help="Start Tutti for the time of the run; implied by --embedded.")
@click.option("--scheduler-name", default="tutti", show_default=True, help="The schedulerName of pods.")
@click.option("--pid", type=int, help="Process of the scheduler, where it runs here: what it uses is told as well.")
@click.option(
    "--against",
    metavar="kube-scheduler=PATH",
    help="Start this binary afterwards, on the same cluster, with the same workloads, and print the ratio.",
)
@click.option(
    "--drain", is_flag=True, help="Stop the scheduler while measured pods are created; time what comes after."
)
@click.option(
    "--runs",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="Times that each scheduler has its turn; medians are told.",
)
@click.option("--argument", "more", multiple=True, help="Further argument of the binary of --against.")
@click.option("--label-filter", default="", help="Labels to have, and with - not to have: performance,-long.")
@click.option("--only", default="", metavar="REGEX", help="Which workloads, by <scenario>/<workload>.")
@click.option("--topic", help="Name of the results, and of the thresholds; the first file's if not given.")
@click.option("--data-items-dir", type=click.Path(path_type=Path, file_okay=False), help="Folder for the results.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--timeout", default=_LONGEST.operation, show_default=True, help="Seconds an operation may wait.")
@click.option("--plain", is_flag=True, help="Print lines on a terminal, too.")
def run(
    *,
    files: tuple[Path, ...],
    kubeconfig: Path | None,
    embedded: bool,
    operator: bool,
    scheduler_name: str,
    pid: int | None,
    against: str | None,
    more: tuple[str, ...],
    drain: bool,
    runs: int,
    label_filter: str,
    only: str,
    topic: str | None,
    data_items_dir: Path | None,
    output: str,
    timeout: float,
    plain: bool,
) -> None:
    """Run the workloads of FILES and measure how fast their pods get nodes.

    The nodes are objects that nobody stands behind. What a workload makes is taken away after it. Exits 0 if all
    was run and no threshold was missed, else 1; 2 where it cannot begin.
    """
    from tutti_bench.performance import Benchmark  # noqa: PLC0415 - only this command talks to clusters

    if embedded and kubeconfig is not None:
        raise click.UsageError("--embedded has a cluster of its own; leave out --kubeconfig")
    starts = embedded or operator
    if drain and not starts and pid is None:
        raise click.UsageError("to stop a scheduler that runs already for --drain, say which --pid it has")
    mine = Contender(scheduler_name if not starts else "tutti", scheduler_name, starts=starts, pid=pid, drains=drain)
    contenders = [mine, *([_reference(against, more, drain)] if against else [])]
    if len({one.label for one in contenders}) < len(contenders):
        raise click.UsageError(f"--against is measured as {KUBE_SCHEDULER}: give --scheduler-name another name")
    if kubeconfig is None and not embedded and any(one.starts for one in contenders):
        kubeconfig = current_kubeconfig()
        if kubeconfig is None:
            raise click.UsageError("to start a scheduler, say where: --kubeconfig or --embedded")
    try:
        tasks = _tasks(files, Filter.parse(label_filter, only))
    except (DocumentError, TemplateError) as error:
        _fail(str(error))
    if not tasks:
        _fail("no workload has these labels and this name; `--label-filter` and `--only` say which are run")
    performance = Benchmark(
        tasks=tasks,
        contenders=contenders,
        runs=runs,
        embedded=embedded,
        kubeconfig=kubeconfig,
        limits=Limits(operation=timeout, workload=max(timeout, _LONGEST.workload)),
        topic=topic or files[0].stem,
        folder=data_items_dir,
        as_json=output == "json",
        plain=plain,
    )
    sys.exit(asyncio.run(performance.run()))


@command.command("compare")
@click.argument("old", type=_FILE)
@click.argument("new", type=_FILE)
@click.option("--all", "all_buckets", is_flag=True, help="Percentiles, too.")
@click.option("--metric", "metrics", multiple=True, help="Only this metric; may be given several times.")
@click.option("-o", "--output", type=click.Choice(["table", "markdown", "json"]), default="table", show_default=True)
def compare(*, old: Path, new: Path, all_buckets: bool, metrics: tuple[str, ...], output: str) -> None:
    """Print what NEW.json has found beside what OLD.json had: previous, current and difference."""
    try:
        rows = compared(read_data_items(old), read_data_items(new), all_buckets=all_buckets, metrics=metrics)
    except NoDataItems as error:
        _fail(str(error))
    if output == "json":
        click.echo(json.dumps([_row(row) for row in rows], indent=2))
    elif output == "markdown":
        click.echo(markdown(rows), nl=False)
    else:
        outcomes.console().print(outcomes.comparison_table(rows))


def _row(row: Any) -> dict[str, Any]:
    names = ("name", "metric", "bucket", "unit", "previous", "current", "difference")
    return {name: getattr(row, name) for name in names}


def _reference(against: str, more: tuple[str, ...], drain: bool) -> Contender:
    label, _, path = against.partition("=")
    if label != KUBE_SCHEDULER or not path:
        raise click.UsageError(f"--against is written {KUBE_SCHEDULER}=PATH, not {against!r}")
    binary = Path(path)
    if not binary.is_file():
        raise click.UsageError(f"--against: there is no file {binary}")
    return Contender(KUBE_SCHEDULER, REFERENCE_NAME, binary.resolve(), starts=True, more=more, drains=drain)


def _tasks(files: tuple[Path, ...], chosen: Filter) -> list[Task]:
    return [
        prepare(scenario, workload, file.resolve().parent)
        for file in files
        for scenario, workload in chosen.chosen(load_scenarios(file))
    ]


def _fail(message: str) -> NoReturn:
    """End with one line that says what is wrong."""
    click.echo(f"tutti bench: {message}", err=True)
    sys.exit(_USAGE)
