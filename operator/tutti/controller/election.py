"""The election as a room sees it: in its own loop, or in another, where the lease is renewed while this one is busy.

The fence stays what it was: it goes by the moment until which the lease is known to be held, which whoever renews
moves on, and a loop that was busy asks it before each write, after it was busy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from tutti.api.configuration import TuttiConfiguration
from tutti.controller.event_loops import Heartbeat, LoopThread
from tutti.kube.client import Client
from tutti.kube.fencing import LeadershipDoubted, LeaseTerm
from tutti.kube.lease import Elector, LeaseTimes


class Election(Protocol):
    """What a room needs of an `Elector`, wherever that works."""

    @property
    def identity(self) -> str:
        """The name under which this process stands."""

    @property
    def alone(self) -> bool:
        """Whether nobody else can have led since `look`."""

    @property
    def term(self) -> LeaseTerm | None:
        """What writes of this process record."""

    @property
    def leading(self) -> bool:
        """Whether this process may act now."""

    @property
    def doubted(self) -> bool:
        """Whether this process has led, and has to find out whether it still does."""

    @property
    def told(self) -> str:
        """How it stands, in words."""

    def leave(self) -> None:
        """Say that this process wants to end: a lease that could not be renewed in time is lost at once."""

    def check(self) -> float:
        """Return how many seconds what is sent now may be worked on (`Elector.check`)."""

    async def look(self) -> None:
        """Note whether anybody holds the lease."""

    async def acquire(self) -> None:
        """Wait until this process is the leader."""

    async def hold(self) -> None:
        """Renew the lease until it is lost."""

    async def end(self, *, under_way: bool) -> None:
        """Stop acting, and give the lease up."""


@dataclass(frozen=True, slots=True)
class ElectionThread:
    """A loop in a thread of its own, and what is needed there to hold a lease.

    Attributes:
        client: Was made in that loop, and belongs to it.
        pulse: Of the loop that acts: where that is stuck for good, its lease is not renewed.
    """

    loop: LoopThread
    client: Client
    pulse: Heartbeat


class DistantElector:
    """An elector that works in another loop."""

    def __init__(self, elector: Elector, loop: LoopThread) -> None:
        self._elector = elector
        self._loop = loop

    @property
    def identity(self) -> str:
        """The name under which this process stands."""
        return self._elector.identity

    @property
    def alone(self) -> bool:
        """Whether nobody else can have led since `look`."""
        return self._elector.alone

    @property
    def term(self) -> LeaseTerm | None:
        """What writes of this process record."""
        return self._elector.term

    @property
    def leading(self) -> bool:
        """Whether this process may act now."""
        return self._elector.leading

    @property
    def doubted(self) -> bool:
        """Whether this process has led, and has to find out whether it still does."""
        return self._elector.doubted

    @property
    def told(self) -> str:
        """How it stands, in words."""
        return self._elector.told

    def leave(self) -> None:
        """Say that this process wants to end."""
        self._elector.leave()

    def check(self) -> float:
        """Return how many seconds what is sent now may be worked on.

        Raises:
            LeadershipDoubted: Nothing may be sent until it is known whether the lease, not renewed in time, is lost.
            LeadershipLost: Nothing may be sent, or not any more.
        """
        try:
            return self._elector.check()
        except LeadershipDoubted as doubt:
            there = doubt.settled
            raise LeadershipDoubted(str(doubt), settled=lambda: self._loop.run(_waited(there))) from doubt

    async def look(self) -> None:
        """Note whether anybody holds the lease."""
        await self._loop.run(self._elector.look())

    async def acquire(self) -> None:
        """Wait until this process is the leader."""
        await self._loop.run(self._elector.acquire())

    async def hold(self) -> None:
        """Renew the lease until it is lost.

        Raises:
            LeadershipLost: It is.
        """
        await self._loop.run(self._elector.hold())

    async def end(self, *, under_way: bool) -> None:
        """Stop acting, and give the lease up."""
        await self._loop.run(self._elector.end(under_way=under_way))


async def _waited(settled: Callable[[], Awaitable[object]]) -> None:
    await settled()


def elector_in(aside: ElectionThread, client: Client, configuration: TuttiConfiguration) -> DistantElector:
    """Return an elector that works aside, and renews for as long as the loop that acts comes round.

    What `client` finds out here of a server that is back is told there, and the other way round.
    """
    client.recovery.tell_also(partial(aside.loop.soon, aside.client.recovery.hear))
    here = asyncio.get_running_loop()
    aside.client.recovery.tell_also(lambda: here.call_soon_threadsafe(client.recovery.hear))
    election = configuration.leader_election
    elector = Elector(
        aside.client,
        namespace=election.lease_namespace,
        name=election.lease_name,
        times=lease_times(configuration),
        acts=aside.pulse.is_there,
    )
    return DistantElector(elector, aside.loop)


def lease_times(configuration: TuttiConfiguration) -> LeaseTimes:
    """Return how long a lease lasts, when its holder gives up, and how often both sides try."""
    election = configuration.leader_election
    return LeaseTimes(election.lease_duration_seconds, election.renew_deadline_seconds, election.retry_period_seconds)
