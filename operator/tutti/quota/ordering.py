"""Who is next: the keys by which workloads are sorted, since when each waits, and when one that failed is tried.

Rules:

    of workloads     higher priority first, then the older, then by name, so that the order is total; a plugin goes
                     before (Kueue's queue order without its options; kube-scheduler's PrioritySort)
    in a queue       where the queue goes by recent usage, that of the LocalQueue which has used least; then higher
                     priority, longer wait, and uid (Kueue, pkg/cache/queue/cluster_queue.go, 0.20). What victims leave
                     is held for whom they left, so that it needs no place in front of others, as it has there
    heads of queues  nearer quota before borrowing from afar, then higher priority, then longer wait; without fair
                     sharing (Kueue, scheduler.go `makeClassicalIterator`)
    the wait         Kueue, pkg/workload/workload.go `GetQueueOrderTimestamp`
    after a failure  min(base * 2^(n-1), max), as Kueue's requeuing strategy has it, spread by up to a quarter so that
                     workloads that failed together do not come back together; the spread comes from a seeded source
"""

from __future__ import annotations

from enum import StrEnum
from random import Random
from typing import NamedTuple

OrderKey = tuple[float, int, float, int, str, str, str]


def order_key(
    priority: int, created: float, identity: tuple[str, str, str], *, rank: float = 0.0, place: int = 0
) -> OrderKey:
    """Return a key that sorts what is next first.

    Args:
        priority: Higher goes first.
        created: Unix seconds; earlier goes first.
        identity: Kind, namespace and name, to tell equals apart.
        rank: What a sort plugin says; less goes first, whatever the priority.
        place: Its place in the order of its application, among those of one age.
    """
    return (rank, -priority, created, place, *identity)


class HeadKey(NamedTuple):
    """Sorts what is next first."""

    local_usage: float
    less_important: int
    less_gain: int
    queued_at: float
    place: int
    uid: str


def head_key(
    priority: int, queued_at: float, uid: str, *, local_usage: float = 0, place: int = 0, gain: int = 0
) -> HeadKey:
    """Return a workload's place in its queue.

    Args:
        priority: Higher goes first.
        queued_at: Since when it waits, Unix seconds.
        uid: Tells equals apart.
        local_usage: What its LocalQueue has used lately; the same for all where the queue does not go by it.
        place: Its place in the order of its application, among those of one age.
        gain: What its next member gains, where members of running gangs go by that; more goes first.
    """
    return HeadKey(local_usage, -priority, -gain, queued_at, place, uid)


class EntryKey(NamedTuple):
    """Sorts what is processed next first."""

    level: int
    less_important: int
    queued_at: float


def entry_key(priority: int, queued_at: float, level: int) -> EntryKey:
    """Return the place of a head among those of all queues.

    Args:
        priority: Higher goes first.
        queued_at: Since when it waits, Unix seconds.
        level: From how far away its quota would come.
    """
    return EntryKey(level, -priority, queued_at)


class Requeuing(StrEnum):
    """Where a workload comes back to whose pods did not become ready in time."""

    EVICTION = "Eviction"
    CREATION = "Creation"


def queued_at(
    created: float,
    requeuing: Requeuing = Requeuing.EVICTION,
    *,
    not_ready_at: float | None = None,
    check_failed_at: float | None = None,
) -> float:
    """Return the time that its place goes by, Unix seconds.

    Args:
        created: When it was created; minus infinity goes before all others.
        requeuing: Whether an eviction because its pods were not ready sends it to the back.
        not_ready_at: When it was evicted for that, if that was the last eviction.
        check_failed_at: When it was evicted because an admission check failed, if that was the last; always counts.
    """
    if not_ready_at is not None and requeuing is Requeuing.EVICTION:
        return not_ready_at
    return created if check_failed_at is None else check_failed_at


SPREAD = 0.25


def backoff_seconds(attempt: int, random: Random, *, base: float, most: float) -> float:
    """Return the seconds to wait after the `attempt`-th failure (from 1).

    Args:
        attempt: How often it has failed so far.
        random: The seeded source of the spread.
        base: The first delay, seconds.
        most: The longest delay before the spread, seconds.
    """
    exponent = min(max(attempt, 1) - 1, 62)
    return min(base * 2.0**exponent, most) * (1 + SPREAD * random.random())
