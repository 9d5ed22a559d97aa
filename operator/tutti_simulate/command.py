"""`tutti simulate`: a trace of work on a cluster that there may never be, decided by the engine that operators run."""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import click
import msgspec
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tutti.api.problems import ConfigurationError
from tutti.cli.terminal import Terminal, echo
from tutti.cli.views.command_line import NO, USAGE, ViewOptions, fail, view
from tutti.controller.plugins import load_plugins
from tutti.engine.journal import JournalWriter
from tutti.engine.records.plugins import checksums
from tutti.placement.policy_file import MOST_HIDDEN, digest, write_policy
from tutti.virtual_time.cluster import StuckError
from tutti_simulate.comparison import Difference, differences
from tutti_simulate.draws import SaidProgress, parts_of
from tutti_simulate.elastic import Elastic
from tutti_simulate.foreign import THROTTLES
from tutti_simulate.jobs import GPU_SHARE, Trace, queues_of, thinned, with_shares
from tutti_simulate.learned_report import Lessons, draw_learned
from tutti_simulate.learning import Goal, Ground, Lesson, learn, parted
from tutti_simulate.measures import Figures, Power, column_of, dominant, figures_of, wait_of
from tutti_simulate.pictures import pictures
from tutti_simulate.playing import Played, Rules, play
from tutti_simulate.report import Simulation, draw, trace_report
from tutti_simulate.setting import (
    Setting,
    SettingError,
    find_queues,
    in_shares,
    setting_of,
    snapshot_of,
    with_queues,
)
from tutti_simulate.speeds import speeds_of
from tutti_simulate.traces.formats import FORMATS, read_trace
from tutti_simulate.traces.reading import TraceError

FIRST, SECOND = "first", "second"
GC_THRESHOLDS = (100_000, 50, 1000)
_PATH = click.Path(path_type=Path, exists=True)
_PLAIN_SECONDS = 10.0
"""How often it is said without a terminal how far it has come."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be played, as the command line has it."""

    trace: Path
    format: str
    cluster: tuple[Path, ...]
    live: bool
    against: tuple[Path, ...]
    queues: Mapping[str, str]
    shares: str
    part: float
    speed_up: float
    most: int | None
    cpus_per_pod: int | None
    rules: Rules
    power: Power | None
    pictures: Path | None
    jobs: Path | None
    journal: Path | None
    seed: int
    unseen: tuple[Path, ...]
    lesson: Lesson


def _pairs(_: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for value in values:
        name, sign, other = value.rpartition("=")
        if not sign or not other or not name:
            raise click.BadParameter(f"is written {parameter.metavar}, not {value!r}")
        found[name] = other
    return found


def _power(_: click.Context, parameter: click.Parameter, value: str | None) -> Power | None:
    if value is None:
        return None
    try:
        watts = {name: float(number) for name, _, number in (one.partition("=") for one in value.split(","))}
        power = Power(**watts)
    except (TypeError, ValueError):
        raise click.BadParameter(f"is written {parameter.metavar}, in watts, not {value!r}") from None
    if not all(0 <= one < float("inf") for one in watts.values()):
        raise click.BadParameter(f"must not be negative, but is {value!r}")
    return power


@click.command(name="simulate")
@click.argument("trace", type=_PATH)
@click.option("--format", "kind", type=click.Choice(["auto", *FORMATS]), default="auto", show_default=True,
              help="How TRACE is written.")  # fmt: skip
@click.option("--cluster", multiple=True, type=_PATH,
              help="YAML of nodes (as `tutti cluster --shapes` has them), queues, throttles, AppGroups, a "
              "NetworkTopology, a TuttiConfiguration; or openb's list of nodes. Can be repeated.")  # fmt: skip
@click.option("--live", is_flag=True, help="Nodes and queues of a live cluster, without the work in it; only read.")
@click.option("--against", multiple=True, type=_PATH,
              help="YAML of what is otherwise in a second run: nodes, queues or a TuttiConfiguration.")  # fmt: skip
@click.option("--queue", "queues", multiple=True, metavar="OF_TRACE=NAME", callback=_pairs,
              help="The queue of the cluster for one of the trace; * for all others.")  # fmt: skip
@click.option("--shares", type=click.Choice(["whole", "milli"]), default="whole", show_default=True,
              help="What parts of cards count as: whole ones, or thousandths of all cards of a node.")  # fmt: skip
@click.option("--sample", "part", type=click.FloatRange(0, 1, min_open=True), default=1.0, show_default=True,
              help="Only so much of the trace, evenly.")  # fmt: skip
@click.option("--speed-up", type=click.FloatRange(0, min_open=True), default=1.0, show_default=True,
              help="Jobs come so many times faster, and run as long as before.")  # fmt: skip
@click.option("--most", type=click.IntRange(1), help="Only so many jobs, the first ones.")
@click.option("--cpus-per-pod", type=click.IntRange(1), help="Processors in a pod (swf); those of the largest node.")
@click.option("--step", type=click.FloatRange(0, 3600), default=1.0, show_default=True,
              help="Seconds within which everything that happens is seen together.")  # fmt: skip
@click.option("--grace", type=click.FloatRange(0, 86_400), default=0.0, show_default=True,
              help="Seconds that pods take to end that are taken out.")  # fmt: skip
@click.option("--resume", is_flag=True, help="Jobs that are taken out go on where they were.")
@click.option("--no-limits", is_flag=True, help="The engine is not told how long jobs said that they run.")
@click.option("--speed", "speeds", multiple=True, metavar="FLAVOR=FACTOR[:FACTOR]", callback=_pairs,
              help="How fast jobs run in a flavor, by the run times of the trace; of two factors, each job has one "
              "between them. May be given several times; jobs then say how long they take in which.")  # fmt: skip
@click.option("--elastic", type=click.FloatRange(0, 1, min_open=True), metavar="PART",
              help="Jobs run with so small a part of their pods, and grow to all of them.")  # fmt: skip
@click.option("--parallel", default="0.7:0.99", show_default=True, metavar="PART[:PART]",
              help="The part of a job's work that all of its pods share (--elastic); of two, each job has one between "
              "them. Jobs then say how fast they are with how many pods.")  # fmt: skip
@click.option("--silent", is_flag=True, help="Jobs do not say that, and queues learn it from those that have ended.")
@click.option("--progress", metavar="PART[:PART]",
              help="How much progress jobs say that they still make (order Progress); of two, each makes "
              "one between them.")  # fmt: skip
@click.option("--power", metavar="idle=W[,core=W][,gpu=W]", callback=_power,
              help="What a node draws, and each core and card in use: for the energy.")  # fmt: skip
@click.option("--pictures", type=click.Path(path_type=Path, file_okay=False), help="Folder for SVGs.")
@click.option("--jobs", type=click.Path(path_type=Path, dir_okay=False), help="File for a CSV of every job.")
@click.option("--journal", type=click.Path(path_type=Path, dir_okay=False),
              help="File for the journal of the first run, for `tutti replay`.")  # fmt: skip
@click.option("--learn", "lesson_file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Learn a score of nodes; FILE is written where it gains on what it has not seen.")  # fmt: skip
@click.option("--unseen", multiple=True, type=_PATH,
              help="Another trace, to judge by (--learn); the last two fifths of TRACE if not given.")  # fmt: skip
@click.option("--goal", type=click.Choice(["slowdown", "wait"]), default="slowdown", show_default=True,
              help="What is to be small, in the mean of all jobs (--learn).")  # fmt: skip
@click.option("--rounds", type=click.IntRange(1, 1000), default=4, show_default=True,
              help="How often what is drawn next moves to what did best (--learn).")  # fmt: skip
@click.option("--draws", type=click.IntRange(4, 1000), default=10, show_default=True,
              help="How many policies are tried in each round (--learn).")  # fmt: skip
@click.option("--hidden", type=click.IntRange(0, MOST_HIDDEN), default=0, show_default=True,
              help="Size of an inner layer; 0: what is learned is one number for each feature (--learn).")  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Of all draws.")
@view
def command(
    ways: ViewOptions,
    *,
    trace: Path,
    kind: str,
    resume: bool,
    no_limits: bool,
    step: float,
    grace: float,
    speeds: dict[str, str],
    elastic: float | None,
    parallel: str,
    silent: bool,
    progress: str | None,
    cluster: tuple[Path, ...],
    live: bool,
    against: tuple[Path, ...],
    queues: dict[str, str],
    shares: str,
    part: float,
    speed_up: float,
    most: int | None,
    cpus_per_pod: int | None,
    power: Power | None,
    pictures: Path | None,
    jobs: Path | None,
    journal: Path | None,
    seed: int,
    lesson_file: Path | None,
    unseen: tuple[Path, ...],
    goal: Goal,
    rounds: int,
    draws: int,
    hidden: int,
) -> None:
    """Play TRACE in virtual time on the engine that operators run, and say how its jobs fared.

    Where the cluster has no queues, each queue of the trace gets an equal part of it. With --against the same jobs come
    a second time, and the differences are told with the interval that a bootstrap gives them. Equal input gives equal
    output, byte for byte. Exits 2 where nothing can be played; lines of the trace that cannot be read are left out.

    With --learn a small policy is learned that prefers some nodes to others, and judged on what it has not seen. Where
    the interval of what it gained there is not above 0, nothing is written, and it exits 1.
    """
    with _refusing("--speed"):
        rules = Rules(step, grace, resume, not no_limits, speeds_of(speeds))
    with _refusing("--parallel"):
        parts = parts_of(parallel)
    with _refusing("--progress"):
        said = None if progress is None else SaidProgress(parts_of(progress))
    if silent and elastic is None:
        fail("--silent is about elastic jobs: say by --elastic with how few of their pods they run", USAGE)
    rules = replace(rules, elastic=None if elastic is None else Elastic(elastic, parts, silent), progress=said)
    asked = _Asked(
        trace, kind, cluster, live, against, queues, shares, part, speed_up, most, cpus_per_pod, rules, power, pictures,
        jobs, journal, seed, unseen, Lesson(goal, rounds, draws, hidden, seed=seed),
    )  # fmt: skip
    try:
        found = _simulated(ways, asked) if lesson_file is None else _learned(ways, asked, lesson_file)
    except (SettingError, TraceError, ConfigurationError) as error:
        fail(str(error), USAGE)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}", USAGE)
    except StuckError as error:
        fail(str(error), USAGE)
    if isinstance(found, Simulation):
        ways.show(found, lambda page: draw(found, page))
        return
    ways.show(found, lambda page: draw_learned(found, page))
    if not found.learned.gained:
        click.get_current_context().exit(NO)


@contextmanager
def _refusing(option: str) -> Iterator[None]:
    """Exit with what is wrong with an option, where its value raises a ValueError."""
    try:
        yield
    except ValueError as error:
        fail(f"{option} {error}", USAGE)


def _learned(ways: ViewOptions, asked: _Asked, file: Path) -> Lessons:
    """Learn, judge, and write the policy where it has gained."""
    if asked.against:
        raise SettingError("--learn has its own second run: leave out --against")
    if not file.parent.is_dir():
        raise SettingError(f"--learn {file}: there is no folder {file.parent}")
    base = _base(ways, asked)
    if asked.shares == "milli":
        base = in_shares(base)
    trace = _trace(base, asked, asked.trace)
    if asked.unseen:
        seen = trace.jobs
        others = {str(path): _trace(base, asked, path).jobs for path in asked.unseen}
    else:
        seen, rest = parted(trace)
        others = {f"the last {len(rest)} of {len(trace.jobs)}": rest}
    if not seen or not all(others.values()):
        raise TraceError(f"{asked.trace}: there are too few jobs to learn from some and judge by others")
    base = replace(base, plugins=load_plugins(base.configuration))
    ground = Ground(base, asked.queues, asked.rules)
    told = _Told("learning")
    found = learn(ground, seen, others, asked.lesson, progress=told.plays)
    if found.gained:
        text = write_policy(found.policy)
        file.write_bytes(text)
        whole = msgspec.structs.replace(found.policy, checksum=digest(found.policy))
        found = msgspec.structs.replace(found, installed=str(file), policy=whole)
    return Lessons(trace_report(trace), found, base.configuration.scheduler_names[0])


def _trace(base: Setting, asked: _Asked, path: Path) -> Trace:
    """Return a trace as it is to be played on a cluster."""
    if not base.nodes:
        raise SettingError("there are no nodes; say by --cluster which there are, or ask a live cluster by --live")
    per_pod = asked.cpus_per_pod or max(1, base.largest("cpu") // 1000)
    trace = read_trace(path, asked.format, cpus_per_pod=per_pod)
    trace = thinned(with_shares(trace, asked.shares), part=asked.part, speed_up=asked.speed_up, most=asked.most)
    if not trace.jobs:
        raise TraceError(f"{path}: nothing is left of it with --sample {asked.part:g}")
    return trace


def _simulated(ways: ViewOptions, asked: _Asked) -> Simulation:
    base = _base(ways, asked)
    trace = _trace(base, asked, asked.trace)
    settings = {FIRST: base}
    if asked.against:
        settings[SECOND] = setting_of(asked.against, base)
    notes: list[str] = []
    runs: dict[str, tuple[Played, Figures]] = {}
    for name, setting in settings.items():
        notes += [] if runs else _notes(setting, asked)
        played = _played(trace, setting, asked, name)
        runs[name] = (played, figures_of(played, asked.power))
    compared: tuple[Difference, ...] = ()
    if len(runs) > 1:
        (first, of_first), (second, of_second) = runs.values()
        compared = tuple(
            differences(
                first,
                second,
                (of_first, of_second),
                seed=asked.seed,
                ends=bool(asked.rules.speeds or asked.rules.elastic),
            )
        )
    _write(asked, runs)
    return Simulation(trace_report(trace), {name: one[1] for name, one in runs.items()}, compared, tuple(notes))


def _base(ways: ViewOptions, asked: _Asked) -> Setting:
    base = None
    if asked.live:
        with ways.busy("listing the cluster"):
            live = ways.ask()
        base = snapshot_of(live.listed.seen, live.configuration)
    elif ways.config is not None:
        base = setting_of([ways.config])
    return setting_of(asked.cluster, base)


def _notes(setting: Setting, asked: _Asked) -> list[str]:
    notes = []
    if not any(kind == "ClusterQueue" for kind, _, _ in setting.objects):
        notes.append("there are no queues: each of the trace has an equal part of the nodes, and lends it")
    kinds = {kind for kind, _, _ in setting.foreign}
    if kinds & set(THROTTLES) and setting.configuration.throttles is None:
        notes.append("there are throttles, which count only with throttles.name in a TuttiConfiguration")
    if kinds - set(THROTTLES) and setting.configuration.network is None:
        notes.append("there are AppGroups or NetworkTopologies, which count only with network in a TuttiConfiguration")
    if asked.shares == "milli":
        notes.append(f"parts of cards count as {GPU_SHARE} of a node: holes in single cards are not seen")
    return notes


def _played(trace: Trace, setting: Setting, asked: _Asked, name: str) -> Played:
    if asked.shares == "milli":
        setting = in_shares(setting)
    setting = replace(setting, plugins=load_plugins(setting.configuration))
    names = queues_of(trace.jobs)
    wanted = {one for job in trace.jobs for pods in job.pods for one in pods.requests}
    setting, queues = find_queues(with_queues(setting, names, wanted), names, asked.queues)
    with _journal(asked.journal if name == FIRST else None) as file, _progress(name, len(trace.jobs)) as told:

        def writer(setting: Setting) -> JournalWriter | None:
            return (
                None
                if file is None
                else JournalWriter(file, setting.configuration, policies=checksums(setting.plugins))
            )

        gc.set_threshold(*GC_THRESHOLDS)  # what is played lives long and holds no rings
        began, busy = time.perf_counter(), time.process_time()
        played = play(trace.jobs, setting, queues, asked.rules, progress=told, journal=writer)
        took, busy = time.perf_counter() - began, time.process_time() - busy
    rate = played.events / busy if busy else 0.0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    echo(
        f"{name}: {played.events:,} events and {played.turns:,} turns of the engine in {took:,.1f} s "
        f"({rate:,.0f} events per second of the processor, {most:,} MiB at most)",
        err=True,
    )
    return played


class _Told:
    """Says now and then how far something has come."""

    def __init__(self, name: str) -> None:
        self._name, self._said = name, time.monotonic()

    def line(self, text: str) -> None:
        """Say it, unless something was said just now."""
        if time.monotonic() - self._said >= _PLAIN_SECONDS:
            self._said = time.monotonic()
            echo(f"{self._name}: {text}", err=True)

    def plays(self, done: int, of: int, best: float) -> None:
        """Say how often a trace was played."""
        self.line(f"played {done:,} times of {of:,}; the best so far has {best:,.2f}")


@contextmanager
def _journal(path: Path | None) -> Iterator[BinaryIO | None]:
    if path is None:
        yield None
        return
    with path.open("wb") as file:
        yield file


@contextmanager
def _progress(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how many jobs have ended: as a bar on a terminal, else as a line now and then."""
    if not sys.stderr.isatty():
        told = _Told(name)
        yield lambda ended: told.line(f"{ended:,} of {total:,} jobs have ended")
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Terminal(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=total)
        yield lambda ended: bar.update(task, completed=ended)


def _write(asked: _Asked, runs: Mapping[str, tuple[Played, Figures]]) -> None:
    if asked.pictures is not None:
        asked.pictures.mkdir(parents=True, exist_ok=True)
        shown = dominant(next(iter(runs.values()))[0])
        for name, text in pictures(runs, shown, asked.power).items():
            (asked.pictures / name).write_text(text, "utf-8")
    if asked.jobs is not None:
        asked.jobs.write_text(
            "".join(_rows({name: one[0] for name, one in runs.items()}, asked.rules.progress)), "utf-8"
        )


def _rows(runs: Mapping[str, Played], said: SaidProgress | None) -> Iterator[str]:
    """Yield a line for each job and run; names of the trace are written so that no comma or line end is among them."""
    yield "run,job,queue,user,pods,submitted,wait,started,ended,evictions,progress\n"
    for name, played in runs.items():
        for one, wait in zip(played.jobs, column_of(played, wait_of), strict=True):
            job = one.job
            texts = ["".join(c if c.isprintable() and c not in ',"' else "_" for c in text) for text in
                     (job.name, job.queue, job.user)]  # fmt: skip
            times = ["" if at is None else f"{at:g}" for at in (one.last, one.ended)]
            made = "" if said is None else said.told(job)
            figures = f"{job.size},{job.submitted:g},{wait:g},{','.join(times)},{one.evictions},{made}"
            yield f"{name},{','.join(texts)},{figures}\n"
