"""What a forecast says in sentences: who starts when and where, who is taken out, and who has more or fewer members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tutti.api.messages import counted
from tutti.cli.views.drawing import ago
from tutti.cli.views.forecast.model import Course, ForecastCourse, ForecastWorkload


def summary_of(told: Sequence[ForecastWorkload], now: float) -> list[str]:
    """Return the answer in sentences, the most important one first.

    Args:
        told: What was submitted, and everybody who fares otherwise.
        now: When it was asked, Unix seconds.
    """
    lines = [_sentence(one, now) for one in told if one.asked]
    others = [one for one in told if not one.asked]
    displaced = [one for one in others if _newly_displaced(one)]
    if displaced:
        lines.append(f"{counted(len(displaced), 'workload')} would be taken out: {_names(displaced)}")
    earlier = [one for one in others if _moved(one) < 0 and one not in displaced]
    later = [one for one in others if _moved(one) > 0 and one not in displaced]
    if earlier:
        lines.append(f"{counted(len(earlier), 'workload')} would start earlier: {_names(earlier)}")
    if later:
        lines.append(f"{counted(len(later), 'workload')} would start later: {_names(later)}")
    moved = (*displaced, *earlier, *later)
    growth = [(one, _growth(one)) for one in others if one not in moved]
    for how, what in ((2, "have more members"), (-2, "have fewer members"), (1, "grow earlier"), (-1, "grow later")):
        grown = [one for one, found in growth if found == how]
        if grown:
            lines.append(f"{counted(len(grown), 'workload')} would {what}: {_names(grown)}")
    return lines or ["nobody would fare otherwise"]


def _sentence(one: ForecastWorkload, now: float) -> str:
    name, after = f"{one.namespace}/{one.name}", one.after
    if after.course is Course.NOW:
        return f"{name} would start at once on {_places(after.nodes)}{_then_grows(after, now)}"
    if after.course is Course.LATER and after.starts_at is not None:
        return f"{name} would start in {ago(after.starts_at - now)} on {_places(after.nodes)}{_then_grows(after, now)}"
    if after.course is Course.WAITS:
        return f"{name} would still wait at the {after.gate or 'Queue'} gate: {after.message}"
    if after.course is Course.DISPLACED:
        return f"{name} would be taken out: {after.displaced_for}"
    return f"{name} runs already" if after.course is Course.RUNS else f"{name} would not be there"


def _then_grows(after: ForecastCourse, now: float) -> str:
    """Say how far a gang grows after its start, and when; nothing of one that does not."""
    if not grows_later(after) or after.members_at is None:
        return ""
    return f", and grow to {counted(after.members, 'pod')} in {ago(after.members_at - now)}"


def grows_later(course: ForecastCourse) -> bool:
    """Whether a gang that starts has more members at some time than at its start."""
    return course.course in (Course.NOW, Course.LATER) and course.members > sum(course.nodes.values()) > 0


def _places(nodes: Mapping[str, int]) -> str:
    shown = [f"{name} ({counted(count, 'pod')})" for name, count in list(nodes.items())[:3]]
    more = len(nodes) - len(shown)
    return ", ".join(shown) + (f" and {counted(more, 'more node')}" if more > 0 else "") or "nodes"


def _newly_displaced(one: ForecastWorkload) -> bool:
    return one.after.course is Course.DISPLACED and one.before.course is not Course.DISPLACED


def _moved(one: ForecastWorkload) -> int:
    """Return -1 of who starts earlier with the changes, 1 of who starts later, and else 0."""
    starts = [
        0.0 if course.course is Course.RUNS else float("inf") if course.starts_at is None else course.starts_at
        for course in (one.before, one.after)
    ]
    return (starts[1] > starts[0]) - (starts[1] < starts[0])


def _growth(one: ForecastWorkload) -> int:
    """Return 2 of who has more members at once with the changes, -2 fewer; 1 as many earlier, -1 later; else 0."""
    before, after = one.before, one.after
    if before.members != after.members:
        return 2 if after.members > before.members else -2
    since = [course.members_at or 0.0 for course in (before, after)]
    return (since[1] < since[0]) - (since[1] > since[0])


def _names(several: Sequence[ForecastWorkload]) -> str:
    shown = ", ".join(f"{one.namespace}/{one.name}" for one in several[:5])
    return shown + (f" and {len(several) - 5} more" if len(several) > 5 else "")  # noqa: PLR2004 - as many as are named
