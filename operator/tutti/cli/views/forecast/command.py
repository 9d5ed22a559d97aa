"""`tutti what-if`: what would happen if this were submitted, or that were changed. Nothing is written."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Group, RenderableType
from rich.text import Text

from tutti.api.conditions import timestamp
from tutti.api.frameworks import KindTable
from tutti.api.frameworks.table import ignored_keys
from tutti.api.messages import counted
from tutti.api.problems import ConfigurationError
from tutti.api.shards import DEFAULT_SHARD
from tutti.cli.views.command_line import NO, ViewOptions, fail, names, read_manifest, view
from tutti.cli.views.drawing import BAD, GOOD, QUIET, WAITS, PageWidth, ago, table
from tutti.cli.views.forecast.changes import (
    AskedChange,
    ChangeError,
    added_nodes,
    drain_change,
    priority_change,
    quota_change,
    submission,
    weight_change,
)
from tutti.cli.views.forecast.model import Course, Forecast, ForecastCourse
from tutti.cli.views.forecast.moment import MomentError, later, read_moment, recorded
from tutti.cli.views.forecast.outlook import forecast
from tutti.cli.views.forecast.sentences import grows_later
from tutti.cli.views.what_if import ObservedCluster
from tutti.virtual_time.cluster import StuckError

_COLOURS = {Course.NOW: GOOD, Course.RUNS: GOOD, Course.DISPLACED: BAD}
_HOUR = 3600.0


@click.command(name="what-if")
@click.option("-f", "--filename", metavar="FILE",
              help="Work that is submitted, or objects of Tutti's as they would be; - for stdin.")  # fmt: skip
@click.option("--name", default="", help="Which work of the manifest is submitted, where it has several.")
@click.option("-n", "--namespace", help="Of work that names none; that of the context if not given.")
@click.option("--quota", "quotas", multiple=True, metavar="QUEUE:[FLAVOR:]RESOURCE=AMOUNT",
              help="A ClusterQueue has so much of its own.")  # fmt: skip
@click.option(
    "--weight", "weights", multiple=True, metavar="QUEUE=WEIGHT", help="The weight of a ClusterQueue or Cohort."
)
@click.option(
    "--drain", "drains", multiple=True, metavar="NODE", help="A node is drained.", shell_complete=names("Node")
)
@click.option(
    "--add-nodes", "added", multiple=True, metavar="NODE=COUNT", help="There are so many more nodes like one."
)
@click.option("--priority", "priorities", multiple=True, metavar="NAMESPACE/NAME=PRIORITYCLASS",
              help="Work that is there has another priority.")  # fmt: skip
@click.option("--at", metavar="TIME",
              help="When it is asked about: 2026-11-24T18:00:00Z, or +2h from now; now if not given.")  # fmt: skip
@click.option("--journal", multiple=True, type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Ask about the cluster that an operator's journal tells of, at TIME or its end.")  # fmt: skip
@click.option("--run-time", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
              help="How long work runs of which that is not known; for ever if not given.")  # fmt: skip
@click.option("--shard", default=DEFAULT_SHARD, show_default=True,
              help="Which shard it is asked about, where the configuration names shards.")  # fmt: skip
@click.option("--hours", type=click.FloatRange(0, 8760, min_open=True), default=24.0, show_default=True,
              help="How far is looked ahead.")  # fmt: skip
@view
def command(
    way: ViewOptions,
    *,
    filename: str | None,
    name: str,
    namespace: str | None,
    quotas: tuple[str, ...],
    weights: tuple[str, ...],
    drains: tuple[str, ...],
    added: tuple[str, ...],
    priorities: tuple[str, ...],
    at: str | None,
    journal: tuple[Path, ...],
    run_time: float | None,
    shard: str,
    hours: float,
) -> None:
    """Say what would become of whom if a manifest were submitted, a quota or weight changed, nodes drained or added.

    All changes are made at once, to a listing of the cluster and nowhere else. Then time passes there, once with them
    and once without: who starts when and where, who is taken out for whom, who still waits and why. Exits 1 where what
    is submitted would not start in that time.

    With --at it is asked about a later moment: until then everything goes on as it does, and nobody comes. With
    --journal nothing is asked of any cluster: what `tutti run --journal` wrote is read, and the past is asked about.
    """
    if filename is None and not (quotas or weights or drains or added or priorities):
        fail("say what would be otherwise: -f FILE, --quota, --weight, --priority, --drain or --add-nodes")
    manifest = None if filename is None else read_manifest(filename)
    try:
        asked = _asked(way, namespace, at, journal, run_time, shard)
        changes = [
            *(priority_change(one, asked) for one in priorities),
            *(quota_change(one, asked.listed.seen) for one in quotas),
            *(weight_change(one, asked.listed.seen) for one in weights),
            *(added_nodes(one, asked.listed.seen) for one in added),
            *(drain_change(one, asked.listed.seen) for one in drains),
            *([] if manifest is None else _submitted(asked, manifest, name, namespace)),
        ]
        with way.busy("letting time pass ..."):
            found = forecast(asked, changes, horizon=hours * _HOUR, run_seconds=run_time)
    except (ChangeError, MomentError, ConfigurationError, StuckError) as error:
        fail(str(error))
    way.show(found, lambda page: draw_forecast(found, page))
    if any(one.asked and one.after.course is Course.WAITS for one in found.workloads):
        click.get_current_context().exit(NO)


def _asked(
    way: ViewOptions,
    namespace: str | None,
    at: str | None,
    journal: tuple[Path, ...],
    run_time: float | None,
    shard: str,
) -> ObservedCluster:
    """Return the cluster that is asked about, at the moment that is meant."""
    if journal:
        past = None if at is None or at.startswith("+") else read_moment(at, 0.0)
        asked = recorded(journal, past)
    else:
        asked = way.ask(namespace)
        way.require(asked)
        asked = asked.of_shard(shard)
    ahead = asked.at if at is None else read_moment(at, asked.at)
    if ahead == asked.at:
        return asked
    with way.busy("letting time pass until then ..."):
        return later(asked, ahead, run_time)


def _submitted(asked: ObservedCluster, manifest: str, name: str, namespace: str | None) -> list[AskedChange]:
    settings = asked.configuration
    kinds = KindTable(settings.frameworks, ignored_keys(settings.conventions))
    space = namespace or asked.listed.namespace
    return submission(manifest, name, space, kinds, asked.listed.seen, asked.at)


def draw_forecast(found: Forecast, page: PageWidth) -> RenderableType:
    """Draw it: what is asked, the answer in sentences, and a line for everybody who fares otherwise."""
    parts: list[RenderableType] = [Text(f"if {' and '.join(found.changes)}:", "bold")]
    parts += [Text(f"  {line}") for line in found.summary]
    if found.workloads:
        rows = table("WORKLOAD", "QUEUE", "PODS", "WITHOUT", "WITH", "WHY", right=("PODS",), wraps=("WHY",), page=page)
        for one in found.workloads:
            name, colour = f"{one.namespace}/{one.name}", _COLOURS.get(one.after.course, WAITS)
            sized = one.before.members != one.after.members
            after = Text(_in_words(one.after, found.at, sized=sized), colour)
            before = _in_words(one.before, found.at, sized=sized)
            rows.add_row(name, one.cluster_queue, str(one.pods), before, after, _why(one.after))
        parts += [Text(), rows]
    parts += [Text(), Text(f"{found.same} fare as they do without it, until {timestamp(found.until)}", QUIET)]
    parts += [Text(f"note: {note}", QUIET) for note in found.notes]
    return Group(*parts)


def _in_words(one: ForecastCourse, now: float, *, sized: bool) -> str:
    """Say how somebody fares; `sized`, with how many members, as that is what makes the difference."""
    course = _course_in_words(one, now)
    if grows_later(one) and one.members_at is not None:
        return f"{course}, {one.members} members in {ago(one.members_at - now)}"
    return f"{course}, {counted(one.members, 'member')}" if sized and one.course is Course.RUNS else course


def _course_in_words(one: ForecastCourse, now: float) -> str:
    again = "" if one.starts_at is None else f"in {ago(one.starts_at - now)}"
    match one.course:
        case Course.RUNS:
            return "runs"
        case Course.NOW:
            return "starts now"
        case Course.LATER:
            return f"starts {again}"
        case Course.WAITS:
            return "waits"
        case Course.DISPLACED:
            return f"taken out, again {again}" if again else "taken out, then waits"
        case Course.ABSENT:
            return "-"


def _why(one: ForecastCourse) -> str:
    waits = f"{one.gate}: {one.message}" if one.gate else ""
    if one.course is Course.DISPLACED:
        return f"{one.displaced_for}; then {waits}" if waits else one.displaced_for
    return waits
