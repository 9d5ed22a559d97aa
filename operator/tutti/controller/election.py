"""The election as the leader's session sees it: in its own loop, or in another, which renews while this one is busy.

The fence stays what it was: it goes by the moment until which the lease is known to be held, which whoever renews
moves on, and a loop that was busy asks it before each write, after it was busy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from tutti.api.configuration import TuttiConfiguration
from tutti.api.shards import DEFAULT_SHARD, lease_of
from tutti.controller.event_loops import Heartbeat, LoopThread
from tutti.kube.client import Client
from tutti.kube.fencing import LeadershipDoubted
from tutti.kube.lease import Elector, LeaseTimes


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


class Election:
    """Asks an elector in the loop that it works in.

    Attributes:
        elector: What it knows may be read from any loop: its identity, its term, whether it leads, and so on.
    """

    def __init__(self, elector: Elector, loop: LoopThread | None = None) -> None:
        """Ask this one; `loop` is where it works, None: here."""
        self.elector = elector
        self._loop = loop

    def check(self) -> float:
        """Return how many seconds what is sent now may be worked on.

        Raises:
            LeadershipDoubted: Nothing may be sent until it is known whether the lease, not renewed in time, is lost.
            LeadershipLost: Nothing may be sent, or not any more.
        """
        try:
            return self.elector.check()
        except LeadershipDoubted as doubt:
            there = doubt.settled
            raise LeadershipDoubted(str(doubt), settled=lambda: self._there(_waited(there))) from doubt

    async def confirm(self) -> None:
        """Return once the server has said that this process holds the lease.

        Raises:
            LeadershipLost: It does not.
            WireError: The server does not say.
        """
        await self._there(self.elector.confirm())

    async def look(self) -> None:
        """Note whether anybody holds the lease."""
        await self._there(self.elector.look())

    async def acquire(self) -> None:
        """Wait until this process is the leader."""
        await self._there(self.elector.acquire())

    async def hold(self) -> None:
        """Renew the lease until it is lost.

        Raises:
            LeadershipLost: It is.
        """
        await self._there(self.elector.hold())

    async def end(self, *, under_way: bool) -> None:
        """Stop acting, and give the lease up."""
        await self._there(self.elector.end(under_way=under_way))

    async def _there(self, work: Coroutine[Any, Any, None]) -> None:
        await (work if self._loop is None else self._loop.run(work))


async def _waited(settled: Callable[[], Awaitable[object]]) -> None:
    await settled()


def election_of(
    configuration: TuttiConfiguration,
    client: Client,
    aside: ElectionThread | None,
    *,
    clock: Callable[[], float],
    shard: str = DEFAULT_SHARD,
) -> Election | None:
    """Return the election that a process takes part in, for the lease of its shard; None where it needs no lease.

    An elector that works aside renews for as long as the loop that acts comes round. What `client` finds out here of a
    server that is back is told there, and the other way round.
    """
    election = configuration.leader_election
    if not election.enabled:
        return None
    lease = election.lease_namespace, lease_of(election.lease_name, shard)
    times = lease_times(configuration)
    if aside is None:
        return Election(Elector(client, namespace=lease[0], name=lease[1], times=times, clock=clock))
    client.recovery.tell_also(partial(aside.loop.soon, aside.client.recovery.hear))
    here = asyncio.get_running_loop()
    aside.client.recovery.tell_also(lambda: here.call_soon_threadsafe(client.recovery.hear))
    elector = Elector(aside.client, namespace=lease[0], name=lease[1], times=times, acts=aside.pulse.is_there)
    return Election(elector, aside.loop)


def lease_times(configuration: TuttiConfiguration) -> LeaseTimes:
    """Return how long a lease lasts, when its holder gives up, and how often both sides try."""
    election = configuration.leader_election
    return LeaseTimes(election.lease_duration_seconds, election.renew_deadline_seconds, election.retry_period_seconds)
