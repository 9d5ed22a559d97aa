"""What becomes of a hollow pod: how long it takes to start, how long it runs, and how it ends.

Its annotations say so, or defaults where they are silent. What is left to chance is drawn from a seed and the pod's
name, so that a pod of the same name has the same fate in every run with that seed.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field

from tutti.api.model import Model

Json = dict[str, Any]

PREFIX = "sim.tutti.dev/"
STARTUP_SECONDS = PREFIX + "startup-seconds"
RUN_SECONDS = PREFIX + "run-seconds"
EXIT_CODE = PREFIX + "exit-code"
FAIL_PROBABILITY = PREFIX + "fail-probability"
HANG_PROBABILITY = PREFIX + "hang-probability"

NUMBER = r"\d+(?:\.\d+)?"
FIXED = re.compile(NUMBER)
UNIFORM = re.compile(rf"({NUMBER})-({NUMBER})")
EXPONENTIAL = re.compile(rf"exp\(({NUMBER})\)")
DURATION_RULE = "must be seconds such as 2.5, a range such as 5-15, or exp(30) for an exponential with that mean"


def duration(text: str, draw: random.Random) -> float:
    """Seconds from `2.5`, `5-15` (uniform) or `exp(30)` (exponential with that mean); ValueError for anything else."""
    if FIXED.fullmatch(text):
        return float(text)
    if match := UNIFORM.fullmatch(text):
        low, high = map(float, match.groups())
        if low <= high:
            return draw.uniform(low, high)
    elif match := EXPONENTIAL.fullmatch(text):
        mean = float(match[1])
        return draw.expovariate(1 / mean) if mean else 0.0
    raise ValueError(f"{DURATION_RULE}, not {text!r}")


def probability(text: str) -> float:
    """A probability; ValueError when it is none."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"must be a probability from 0 to 1, not {text!r}")
    return value


def _checked(text: str) -> str:
    duration(text, random.Random(0))  # noqa: S311 - only to see whether it can be read
    return text


Duration = Annotated[str, BeforeValidator(str), AfterValidator(_checked)]
"""A time as a user writes it, fixed or drawn."""
Probability = Annotated[float, Field(ge=0, le=1)]


class PodDefaults(Model):
    """What becomes of pods whose annotations do not say it."""

    startup_seconds: Duration = "0"
    """From being bound to running."""
    run_seconds: Duration | None = None
    """From running to the end; for ever if not given."""
    fail_probability: Probability = 0.0
    """How often a pod ends with an error."""
    hang_probability: Probability = 0.0
    """How often a pod never ends, and has to be killed when it is deleted."""
    exit_code: Annotated[int, Field(ge=1, le=255)] = 1
    """What a pod that fails ends with."""
    stop_seconds: Duration = "0.05"
    """From being deleted to the end, at most the pod's grace period."""
    restart_seconds: Duration = "1"
    """From the end of a container to its next start, where the pod's restart policy has it started again."""


class Fate(NamedTuple):
    """What becomes of one run of a pod; `run` is None when it does not end by itself."""

    startup: float
    run: float | None
    code: int
    hangs: bool
    stop: float
    restart: float


@dataclass(frozen=True, slots=True)
class Fates:
    """Tells fates from defaults and a seed."""

    defaults: PodDefaults = field(default_factory=PodDefaults)
    seed: int = 0

    def of(self, pod: Json, restarts: int = 0) -> Fate:
        """The fate of a pod; ValueError names the annotation that cannot be read, and what would be right."""
        meta, defaults = pod["metadata"], self.defaults
        notes = meta.get("annotations") or {}
        # One die for each question, so that an annotation that answers one does not change the others.
        place = f"{self.seed}/{meta['namespace']}/{meta['name']}/{restarts}"
        dice = {name: random.Random(f"{place}/{name}") for name in ("startup", "run", "end", "stop")}  # noqa: S311 - no secret
        run = _read(notes, RUN_SECONDS, defaults.run_seconds, dice["run"])
        fails = _odds(notes, FAIL_PROBABILITY, defaults.fail_probability)
        hangs = _odds(notes, HANG_PROBABILITY, defaults.hang_probability)
        roll = dice["end"].random()
        code = _code(notes) if EXIT_CODE in notes else defaults.exit_code if hangs <= roll < hangs + fails else 0
        return Fate(
            startup=_read(notes, STARTUP_SECONDS, defaults.startup_seconds, dice["startup"]) or 0.0,
            run=None if roll < hangs else run,
            code=code,
            hangs=roll < hangs,
            stop=duration(defaults.stop_seconds, dice["stop"]),
            restart=duration(defaults.restart_seconds, dice["stop"]),
        )


def _read(notes: dict[str, str], key: str, default: str | None, draw: random.Random) -> float | None:
    text = notes.get(key, default)
    try:
        return None if text is None else duration(text, draw)
    except ValueError as error:
        raise ValueError(f"annotation {key} {error}") from None


def _odds(notes: dict[str, str], key: str, default: float) -> float:
    try:
        return probability(notes[key]) if key in notes else default
    except ValueError as error:
        raise ValueError(f"annotation {key} {error}") from None


def _code(notes: dict[str, str]) -> int:
    text = notes[EXIT_CODE]
    if not text.isdecimal() or int(text) > 255:  # noqa: PLR2004 - a byte
        raise ValueError(f"annotation {EXIT_CODE} must be a number from 0 to 255, not {text!r}")
    return int(text)
