"""A small policy is learned by playing a trace again and again, and judged on traces that it has not seen.

Learned by the cross-entropy method (Rubinstein, "The Cross-Entropy Method for Combinatorial and Continuous
Optimization", 1999): numbers are drawn around a mean, the trace is played with each, and the mean moves to those that
did best. No gradient is needed, so the simulator may be what it is: the engine that operators run. What is learned only
tells nodes apart on which pods fit anyway.

Judged once, in the end, and only by what it has not seen. Equal seeds learn alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from tutti import __version__
from tutti.engine.records.plugins import Enabled
from tutti.placement.policy_features import POLICY_FEATURES
from tutti.placement.policy_file import MOST_HIDDEN, LearnedPolicy, PolicyFile, read_policy, write_policy
from tutti_simulate.comparison import interval
from tutti_simulate.jobs import Trace, TraceJob, queues_of
from tutti_simulate.measures import column_of, slowdown_of, wait_of
from tutti_simulate.playing import Played, PlayedJob, Rules, play
from tutti_simulate.setting import Setting, find_queues, with_queues

Goal = Literal["wait", "slowdown"]
Floats = NDArray[np.float64]

LEARNED: Final = "learnedScore"
SEEN_PART: Final = 0.6
"""How much of a trace is learned from, where no other traces are given to judge by."""
_FIGURES: Final[Mapping[str, Callable[[PlayedJob, float], float]]] = {"wait": wait_of, "slowdown": slowdown_of}
_SPREAD: Final = 3.0
_LEAST_SPREAD: Final = 0.1
_ELITE: Final = 4
_KEPT: Final = 0.3
_BOUND: Final = 100.0
_WEIGHT: Final = 10
_PACKED: Final = {"devicesFree": -4.0, "cpuFree": -2.0, "begun": 2.0}
"""What people would try first: nodes that are used already, the fullest first; and the reverse of it."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """How it is learned.

    Attributes:
        goal: What is to be small, in the mean of all jobs: `wait`, seconds, or bounded `slowdown`.
        rounds: How often the mean moves; `draws`, how many policies are tried each time.
        hidden: How many numbers an inner layer gives; 0: there is none.
        weight: What the score counts against others, as in the profile.
        seed: Of the draws.
    """

    goal: Goal = "slowdown"
    rounds: int = 4
    draws: int = 10
    hidden: int = 0
    weight: int = _WEIGHT
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.hidden <= MOST_HIDDEN:
            raise ValueError(f"an inner layer may give {MOST_HIDDEN} numbers, not {self.hidden}")


class Judged(msgspec.Struct, frozen=True, rename="camel"):
    """How the learned policy does on one trace beside what there was before; the mean of the goal over all jobs.

    Attributes:
        gain: How much less it is; `low` and `high`, between which it lies in 95 of 100 draws.
    """

    trace: str
    jobs: int
    before: float
    learned: float
    gain: float
    low: float
    high: float


class Learned(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What was learned, and what it is worth.

    Attributes:
        goal: What was to be small.
        plays: How often the trace was played.
        rounds: The best of each round on what was seen.
        seen: On what it was learned from; `unseen`, on each trace that it had not seen; `all`, on these together.
        gained: Whether the interval of `all` is above 0.
        installed: Where the policy was written to; "": nowhere.
        policy: What stands there, or would.
        notes: What is to be known of it.
    """

    goal: str
    plays: int
    rounds: tuple[float, ...]
    seen: Judged
    unseen: tuple[Judged, ...]
    all: Judged
    gained: bool
    installed: str
    policy: PolicyFile
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ground:
    """Where and how traces are played.

    Attributes:
        setting: The cluster, with the configuration that is to be bettered.
        said: Which queue of the cluster stands for one of a trace, where names differ.
    """

    setting: Setting
    said: Mapping[str, str]
    rules: Rules

    def played(self, jobs: Sequence[TraceJob], policy: LearnedPolicy | None = None, weight: int = _WEIGHT) -> Played:
        """Return what comes of some jobs; with a policy in place of what decided between nodes by how full they are."""
        setting = self.setting if policy is None else with_policy(self.setting, policy, weight)
        names = queues_of(jobs)
        wanted = {one for job in jobs for pods in job.pods for one in pods.requests}
        setting, queues = find_queues(with_queues(setting, names, wanted), names, self.said)
        return play(jobs, setting, queues, self.rules)


def with_policy(setting: Setting, policy: LearnedPolicy, weight: int) -> Setting:
    """Return a cluster whose first profile goes by a policy; accelerators are not packed by rule there."""
    profiles = setting.configuration.profiles
    first = profiles[0].model_copy(update={"accelerator_packing": None})
    configuration = setting.configuration.model_copy(update={"profiles": [first, *profiles[1:]]})
    name = first.scheduler_name
    others = [one for one in setting.plugins.get(name, ()) if one.name != LEARNED]
    return replace(
        setting,
        configuration=configuration,
        plugins={**setting.plugins, name: [*others, Enabled(LEARNED, policy, weight)]},
    )


def parted(trace: Trace) -> tuple[list[TraceJob], list[TraceJob]]:
    """Return the beginning of a trace, to learn from, and the rest, to judge by, each from 0 on."""
    cut = int(len(trace.jobs) * SEEN_PART)
    rest = trace.jobs[cut:]
    begins = rest[0].submitted if rest else 0.0
    return trace.jobs[:cut], [msgspec.structs.replace(one, submitted=one.submitted - begins) for one in rest]


def learn(
    ground: Ground,
    seen: Sequence[TraceJob],
    unseen: Mapping[str, Sequence[TraceJob]],
    lesson: Lesson,
    *,
    progress: Callable[[int, int, float], None] = lambda *_: None,
) -> Learned:
    """Return a policy that was learned from some jobs, and how it does on others.

    Args:
        ground: Where they are played.
        seen: What is learned from.
        unseen: What is judged by, by the name of the trace; at least one.
        lesson: How.
        progress: Is told how often the trace was played, of how often, and the best so far.

    Raises:
        StuckError: The engine asks for ever to be called again (a fault of ours).
    """
    school = _School(ground, seen, lesson, progress)
    rounds = tuple(school.rounds())
    policy = school.best()
    judged, pairs = [], []
    random = np.random.default_rng(lesson.seed)
    for name, jobs in {"": seen, **unseen}.items():
        before, after = (_column(one, lesson.goal) for one in (ground.played(jobs), school.played(policy, jobs)))
        judged.append(_judged(name, before, after, random))
        pairs.append((before, after))
    both = [np.concatenate([pair[place] for pair in pairs[1:]]) for place in (0, 1)]
    whole = _judged("", both[0], both[1], random)
    gained = whole.low > 0
    told = {
        "by": f"tutti {__version__}",
        "goal": f"mean {lesson.goal}",
        "learnedFrom": f"{len(seen)} jobs",
        "judgedBy": f"{whole.jobs} others",
        "gain": f"{whole.gain:g} of {whole.before:g}, 95 % of draws within {whole.low:g} and {whole.high:g}",
        "weight": str(lesson.weight),
        "seed": str(lesson.seed),
    }
    return Learned(
        goal=lesson.goal, plays=school.plays, rounds=rounds, seen=judged[0], unseen=tuple(judged[1:]), all=whole,
        gained=gained, installed="", policy=msgspec.structs.replace(policy, trained=told),
        notes=tuple(_notes(ground, whole)),
    )  # fmt: skip


def _notes(ground: Ground, whole: Judged) -> Iterator[str]:
    profile = ground.setting.configuration.profiles[0]
    if profile.accelerator_packing is not None:
        yield "it stands in for acceleratorPacking, which is to be left out of the profile with it"
    if whole.before == whole.learned == 0:
        yield "nobody waited in the traces that it had not seen, so there was nothing to gain"


def _column(played: Played, goal: Goal) -> Floats:
    return column_of(played, _FIGURES[goal])


def _judged(name: str, before: Floats, after: Floats, random: np.random.Generator) -> Judged:
    low, high = interval(before - after, random)
    means = [float(one.mean()) if len(one) else 0.0 for one in (before, after)]
    figures = (round(value, 6) for value in (*means, means[0] - means[1], low, high))
    return Judged(name, len(before), *figures)


class _School:
    """The search."""

    def __init__(
        self, ground: Ground, seen: Sequence[TraceJob], lesson: Lesson, progress: Callable[[int, int, float], None]
    ) -> None:
        self._ground, self._seen, self._lesson, self._progress = ground, seen, lesson, progress
        measured = ("cpuMeasured", "memoryMeasured")  # nobody measures in a simulation
        self._features = tuple(
            one.name for one in POLICY_FEATURES if (one.varies or lesson.hidden) and one.name not in measured
        )
        inner, many = lesson.hidden, len(self._features)
        self._size = inner * (many + 2) + 1 if inner else many + 1
        self._found: tuple[float, Floats] = (np.inf, np.zeros(self._size))
        self.plays = 0

    def rounds(self) -> Iterator[float]:
        """Yield the best of each round."""
        lesson = self._lesson
        random = np.random.default_rng(lesson.seed)
        mean, spread = np.zeros(self._size), np.full(self._size, _SPREAD if not lesson.hidden else 1.0)
        for turn in range(lesson.rounds):
            drawn = np.clip(mean + spread * random.standard_normal((lesson.draws, self._size)), -_BOUND, _BOUND)
            first = self._tried_first() if turn == 0 else [mean]
            drawn[: len(first)] = first[: lesson.draws]
            scores = np.array([self._tried(one) for one in drawn])
            order = np.argsort(scores, kind="stable")
            best = drawn[order[: max(2, lesson.draws // _ELITE)]]
            mean = _KEPT * mean + (1 - _KEPT) * best.mean(axis=0)
            spread = np.maximum(_KEPT * spread + (1 - _KEPT) * best.std(axis=0), _LEAST_SPREAD)
            yield round(float(scores[order[0]]), 6)

    def best(self) -> PolicyFile:
        """Return the policy that did best on what was seen."""
        return self._policy(self._found[1])

    def played(self, policy: PolicyFile, jobs: Sequence[TraceJob]) -> Played:
        """Return what comes of some jobs with a policy."""
        return self._ground.played(jobs, read_policy(write_policy(policy)), self._lesson.weight)

    def _tried(self, numbers: Floats) -> float:
        self.plays += 1
        score = float(_column(self.played(self._policy(numbers), self._seen), self._lesson.goal).mean())
        if score < self._found[0]:
            self._found = score, numbers
        self._progress(self.plays, self._lesson.rounds * self._lesson.draws, self._found[0])
        return score

    def _tried_first(self) -> list[Floats]:
        if self._lesson.hidden:
            return [np.zeros(self._size)]
        packed = np.array([*(_PACKED.get(name, 0.0) for name in self._features), 0.0])
        return [np.zeros(self._size), packed, -packed]

    def _policy(self, numbers: Floats) -> PolicyFile:
        inner, many = self._lesson.hidden, len(self._features)
        said = [round(float(one), 6) for one in numbers]
        if not inner:
            return PolicyFile(features=self._features, output=tuple(said[:many]), bias=said[many])
        rows = tuple(tuple(said[row * many : (row + 1) * many]) for row in range(inner))
        rest = said[inner * many :]
        return PolicyFile(
            features=self._features,
            hidden=rows,
            hidden_bias=tuple(rest[:inner]),
            output=tuple(rest[inner : 2 * inner]),
            bias=rest[2 * inner],
        )
