"""What the play came to: a row per job, and every promise that was not kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from tutti.api.wording import counted
from tutti_demo.picture import Picture
from tutti_demo.track import State, Track


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one job; None where it did not get so far.

    Attributes:
        placed_at: When its last member was bound, seconds after the play began.
        finished_at: When its last member was done, likewise.
        waited_seconds: From its arrival until its last member was bound.
        spread_seconds: From its first to its last bind.
        partly_bound_seconds: The longest time for which only some members were bound.
        waited_for: The gates it was told to wait at.
    """

    namespace: str
    name: str
    act: int
    queue: str
    members: int
    bound: int
    state: str
    placed_at: float | None
    finished_at: float | None
    waited_seconds: float | None
    spread_seconds: float | None
    partly_bound_seconds: float
    waited_for: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome; `problems` is empty exactly when every promise was kept."""

    gangs: tuple[Row, ...]
    singles: tuple[Row, ...]
    problems: tuple[str, ...]
    seconds: float
    operator_restarts: int
    partly_bound_limit_seconds: float

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not self.problems

    @property
    def median_single_wait_seconds(self) -> float | None:
        """How long single pods waited, in the middle."""
        waits = [row.waited_seconds for row in self.singles if row.waited_seconds is not None]
        return median(waits) if waits else None

    def bind_spread_seconds(self, percent: int) -> float | None:
        """From the first to the last bind of a gang: so many percent of the gangs took no longer (nearest rank)."""
        spreads = sorted(row.spread_seconds for row in self.gangs if row.spread_seconds is not None)
        return spreads[-(-len(spreads) * percent // 100) - 1] if spreads else None


def summarize(picture: Picture, *, at: float, started_at: float, partly_bound_limit: float) -> Summary:
    """Return what the play has come to at `at`.

    Args:
        picture: What was observed.
        at: Now, by the picture's clock.
        started_at: When the first act began, by the same clock.
        partly_bound_limit: Seconds for which a gang may be partly bound while its binds go out.
    """
    rows = [
        (track.job.is_gang, _row(picture, track, at=at, started_at=started_at)) for track in picture.tracks.values()
    ]
    return Summary(
        gangs=tuple(row for is_gang, row in rows if is_gang),
        singles=tuple(row for is_gang, row in rows if not is_gang),
        problems=tuple(_problems(picture, at=at, limit=partly_bound_limit)),
        seconds=round(at - started_at, 3),
        operator_restarts=picture.restarts,
        partly_bound_limit_seconds=partly_bound_limit,
    )


def to_json(summary: Summary) -> dict[str, Any]:
    """The summary for machines."""
    return {
        "ok": summary.ok,
        "problems": list(summary.problems),
        "seconds": summary.seconds,
        "operatorRestarts": summary.operator_restarts,
        "bindSpreadSeconds": {f"p{percent}": _rounded(summary.bind_spread_seconds(percent)) for percent in (50, 99)},
        "partlyBoundLimitSeconds": summary.partly_bound_limit_seconds,
        "gangs": [_row_to_json(row) for row in summary.gangs],
        "singles": [_row_to_json(row) for row in summary.singles],
    }


def _row(picture: Picture, track: Track, *, at: float, started_at: float) -> Row:
    job = track.job
    return Row(
        namespace=job.team,
        name=job.name,
        act=next(act.number for act in picture.scenario.acts if job in act.jobs),
        queue=job.queue,
        members=job.members,
        bound=track.bound,
        state=track.state.value,
        placed_at=None if track.placed_at is None else track.placed_at - started_at,
        finished_at=None if track.finished_at is None else track.finished_at - started_at,
        waited_seconds=track.waited_seconds,
        spread_seconds=track.spread_seconds,
        partly_bound_seconds=track.partly_bound_seconds(at),
        waited_for=tuple(track.gates),
    )


def _problems(picture: Picture, *, at: float, limit: float) -> Iterator[str]:
    """Every promise that was not kept, in words."""
    for track in picture.tracks.values():
        job = track.job
        partly = track.partly_bound_seconds(at)
        if partly > limit:
            yield f"gang {job.path} was partly bound for {partly:.1f} s; at most {limit:g} s are its bind window"
        elif track.partly_since is not None:
            yield f"gang {job.path} is left partly bound: {track.bound} of {counted(job.members, 'member')}"
        if track.state is not State.FINISHED:
            yield f"{job.path} is not finished but {track.state}{_told(track)}"
        for move in track.moved:
            yield f"pod {move}: a pod was bound twice"
    for name in picture.overfull:
        yield f"node {name} was given more than its {counted(picture.scenario.gpus_per_node, 'GPU')}"


def _told(track: Track) -> str:
    return f" ({track.why.gate}: {track.why.message})" if track.why else ""


def _row_to_json(row: Row) -> dict[str, Any]:
    return {
        "namespace": row.namespace,
        "name": row.name,
        "act": row.act,
        "queue": row.queue,
        "members": row.members,
        "bound": row.bound,
        "state": row.state,
        "placedAtSeconds": _rounded(row.placed_at),
        "finishedAtSeconds": _rounded(row.finished_at),
        "waitedSeconds": _rounded(row.waited_seconds),
        "spreadSeconds": _rounded(row.spread_seconds),
        "partlyBoundSeconds": _rounded(row.partly_bound_seconds),
        "waitedFor": list(row.waited_for),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
