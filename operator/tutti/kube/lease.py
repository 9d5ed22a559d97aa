"""Leader election on a Lease (coordination.k8s.io/v1): who may act, and until when.

Times in the record are for people: clocks of hosts are never compared. A candidate counts, on its own monotonic clock,
how long the record has stayed as it is, and takes over when that exceeds the duration the holder promised. The holder
stops acting `lease - renew` seconds earlier, counted from before its last successful renewal was sent. Of these, half
are for writes to be worked on, and half for their way.

    candidate ──try_acquire──▶ leader ──renew──▶ leader ──(another holder, or no lease)──▶ LeadershipLost
                                 ▲                 │ no renewal in time                      ▲
                                 └──── renewed ── in doubt: nothing is written ──────────────┘

Whoever is in doubt goes on trying for as long as the server is away: it leads again with the first answer, where nobody
has written the record since. To end instead would cost a start, a list of everything, and the kubelet's back-off. So a
candidate lets it go first when the server is back: while nobody could renew, silence says nothing about the holder.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import structlog

from tutti.api.conditions import micro_timestamp
from tutti.kube.client import Client
from tutti.kube.errors import ApiError, WireError
from tutti.kube.fencing import LeadershipDoubted, LeadershipLost, LeaseTerm
from tutti.kube.lease_record import NEVER, LeaseRecord

log = structlog.get_logger(__name__)


def default_identity() -> str:
    """Return a name no other process has: the pod's, with a random tail."""
    return f"{os.environ.get('HOSTNAME') or socket.gethostname()}_{uuid.uuid4()}"


_LASTING: Final = "CLOCK_BOOTTIME", "CLOCK_MONOTONIC"
"""What the clock is called that goes on while the machine is suspended: on Linux; elsewhere, as on macOS."""


def lasting_clock(system: Any) -> Callable[[], float]:
    """Return the clock of a system (as the module `time`) that goes on while the machine is suspended, if any does.

    Windows has no names for clocks, and only one that does not go back.
    """
    named = next((getattr(system, name) for name in _LASTING if hasattr(system, name)), None)
    monotonic: Callable[[], float] = system.monotonic if named is None else partial(system.clock_gettime, named)
    return monotonic


boot_clock: Final = lasting_clock(time)
"""Returns seconds that go on while the machine is suspended, where the system can tell."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a lease lasts unrenewed, when its holder gives up, and how often both sides try."""

    lease_seconds: int = 15
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_seconds > self.renew_seconds > self.retry_seconds > 0:
            raise ValueError(
                f"lease {self.lease_seconds} s, renew {self.renew_seconds} s, retry {self.retry_seconds} s: "
                "each must be longer than the next, and all above zero"
            )

    @property
    def courtesy_seconds(self) -> float:
        """For how long a candidate lets the holder go first when the server is back: the holder tries once or twice."""
        return 2 * self.retry_seconds

    @property
    def noticed_seconds(self) -> float:
        """How far apart renewals have to be for time to count as lost: a server that is slow takes its time as well."""
        return self.renew_seconds / 2

    @property
    def way_seconds(self) -> float:
        """How long a write may be on its way between client and server, so that it is over when the lease is."""
        return (self.lease_seconds - self.renew_seconds) / 2


class Elector:
    """One process's part in the election. `check` is the fence that writers are given.

    The lease is renewed only while the process `acts`: one that hangs must not keep others from leading.

    Attributes:
        alone: Whether nobody else can have led since `look`, where this process leads. A lease that was not there
            tells nothing about that: it may have been made and deleted meanwhile.
        leaving: Set by whoever wants to end: then a lease that could not be renewed in time is lost at once.
        lost_seconds: For how long in all nothing could be written while this process led: the lease was not renewed.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str | None = None,
        times: LeaseTimes | None = None,
        clock: Callable[[], float] = boot_clock,
        acts: Callable[[], bool] = lambda: True,
        shown: Callable[[float], object] | None = None,
    ) -> None:
        """Stand for a lease; `shown` is told 1 and 0 whenever it has been got or lost, in place of the metric."""
        self.identity = identity or default_identity()
        self.alone = False
        self.leaving = False
        self.lost_seconds = 0.0
        self._client = client
        self._namespace = namespace
        self._name = name
        self._times = times or LeaseTimes()
        self._clock = clock
        self._acts = acts
        self._shown = shown or client.metrics.leader.set
        self._record = LeaseRecord(
            client,
            namespace,
            name,
            timeout_seconds=self._times.renew_seconds / 2,  # which leaves time for another try before the term ends
            again_seconds=self._times.retry_seconds / 2,
            clock=clock,
        )
        self._sent: dict[str, float] = {}  # renewTime of writes of unknown outcome -> when they were sent
        self._deadline = NEVER
        self._settled = asyncio.Event()
        self._free = ""  # the version of the record in which `look` saw that nobody held it
        self._waiting_for = ""
        self._problem = ""  # why the last try has failed
        self._let_first = "", NEVER  # until when the holder goes first, and the version of its record
        self._doubt_told = False
        self._asking = asyncio.Lock()
        self._asked = self._confirmed = 0  # how often it was to be confirmed, and until which of these it is
        self._stale = True  # the record must be read before it is written

    @property
    def leading(self) -> bool:
        """Whether this process may act now."""
        return self._clock() < self._deadline

    @property
    def doubted(self) -> bool:
        """Whether this process has led, and has to find out whether it still does."""
        return self._deadline != NEVER and not self.leading

    @property
    def told(self) -> str:
        """How it stands, in words: who leads, or for how long the lease has not been renewed, and why."""
        if self._deadline == NEVER:
            return f"stands by: {self._waiting_for}" if self._waiting_for else "does not lead yet"
        since = self._clock() - (self._deadline - self._times.renew_seconds)
        if self._problem:
            return f"the lease could not be renewed for {since:.0f} s: {self._problem}"
        return f"leads; the lease was renewed {since:.0f} s ago"

    @property
    def term(self) -> LeaseTerm | None:
        """What writes of this process record; None where it has never led."""
        return None if self._deadline == NEVER else self._record.term

    def check(self) -> float:
        """Return how many seconds what is sent now may be worked on; cheap enough for before every write.

        Raises:
            LeadershipDoubted: Nothing may be sent until it is known whether the lease, not renewed in time, is lost.
            LeadershipLost: Nothing may be sent, or not any more.
        """
        left = self._deadline - self._clock()
        if left > 0:
            return left + self._times.way_seconds
        if self._deadline == NEVER:
            raise LeadershipLost(f"{self.identity} does not hold lease {self._namespace}/{self._name}")
        raise LeadershipDoubted(
            f"{self.identity} could not renew lease {self._namespace}/{self._name} for {self._times.renew_seconds} s",
            settled=self._settled.wait,
        )

    async def confirm(self) -> None:
        """Return once the server has said, asked after this call, that this process holds the lease.

        One question does for all that waited for it to be asked.

        Raises:
            LeadershipLost: Another holds it, or it was deleted.
            WireError: The server does not say.
        """
        self._asked += 1
        wanted = self._asked
        async with self._asking:
            if self._confirmed >= wanted:
                return
            asked = self._asked
            if self._deadline == NEVER or not await self._record.stands():
                self._lose("another has taken it, or it was deleted")
            self._confirmed = asked

    async def look(self) -> None:
        """Note whether anybody holds the lease, and begin to count how long the record stays as it is."""
        try:
            await self._read()
        except WireError as error:
            self._say_waiting(str(error))
            return
        if not self._record.spec().get("holderIdentity"):
            self._free = self._record.version

    async def acquire(self) -> None:
        """Wait until this process is the leader, however long that takes.

        Raises:
            LeadershipLost: The server has gone back in time.
        """
        while True:
            if await self.try_acquire():
                return
            apart = random.uniform(1.0, 1.2)  # noqa: S311 - keeps candidates out of step, guards nothing
            await self._pause(self._times.retry_seconds * apart)

    async def hold(self) -> None:
        """Renew the lease until it is lost.

        Raises:
            LeadershipLost: It is. The process must stop acting; a new one may stand again.
        """
        while True:
            await self._pause(self._times.retry_seconds)
            if self._acts():
                await self.renew()
            else:
                log.warning("lease_not_renewed", lease=self._name, error="this process is stuck")

    async def _pause(self, seconds: float) -> None:
        """Wait before the next try; after one that failed, no longer than until the server is known to be back."""
        if self._problem:
            await self._client.recovery.wait(seconds)
        else:
            await asyncio.sleep(seconds)

    def leave(self) -> None:
        """Say that this process wants to end."""
        self.leaving = True

    async def try_acquire(self) -> bool:
        """Take the lease if it is free, released or expired; return whether this process is the leader now.

        Raises:
            LeadershipLost: The server has gone back in time.
        """
        try:
            await self._read()
            if self._problem and self._record.version != self._let_first[0]:
                self._let_first = self._record.version, self._clock() + self._times.courtesy_seconds
            self._note(None)
            if self._confirm_own():
                return True
            if not self._proven_own() and not self._takeable():
                self._say_waiting(f"held by {self._record.spec().get('holderIdentity')}")
                return False
            self.alone = self._free != "" and self._record.version == self._free
            await self._write(self._claim())
        except WireError as error:
            self._note(error)
            self._say_waiting(str(error))
            return False
        log.info("lease_acquired", lease=self._name, namespace=self._namespace, identity=self.identity)
        return self.leading

    async def renew(self) -> None:
        """Renew once; what an error leaves open the next try will tell, and nothing is written once time has run out.

        Who has not renewed in time, because it was stopped or the server was away, goes on where nobody else has taken
        the lease: the server accepts a renewal only where nobody has written the record since.

        Raises:
            LeadershipLost: Somebody else holds the lease, it was deleted, or time has run out and this process ends.
        """
        if self._deadline == NEVER:
            self._lose("it was given up")
        late = not self.leading
        if late:
            self._tell_doubt()
        try:
            await self._write_renewed(read=late or self._stale)
        except WireError as error:
            say = log.debug if self._problem else log.warning
            say("lease_not_renewed", lease=self._name, error=str(error))
            self._note(error)
            if isinstance(error, ApiError) and error.status == HTTPStatus.NOT_FOUND:
                self._lose("it was deleted")
            if late and self.leaving:
                self._lose(f"it could not be renewed for {self._times.renew_seconds} s: {error}")
            return
        self._note(None)
        if late and self.leading:
            self._doubt_told = False
            log.warning("lease_renewed_late", lease=self._name, namespace=self._namespace, identity=self.identity)

    def _tell_doubt(self) -> None:
        """Log once that nothing is written until the lease is renewed, or lost."""
        self._shown(0)  # until `_extend` knows better
        if not self._doubt_told:
            self._doubt_told = True
            why = self._problem or "nothing was sent, as in a process that is stopped"
            log.warning("leadership_doubted", lease=self._name, namespace=self._namespace, why=why)

    def _note(self, error: WireError | None) -> None:
        """Remember whether the last try has failed, and tell others when one has worked after that."""
        if error is None:
            failed, self._problem = self._problem, ""
            if failed:
                self._client.recovery.tell()
        else:
            self._problem, self._stale = str(error), True

    async def _write_renewed(self, *, read: bool) -> None:
        """Write the record with the time of now, after reading it where it may have become another's."""
        if read:
            await self._read()
            if not self._proven_own():
                self._lose("another has taken it, or it was deleted")
        await self._write({**self._record.spec(), "renewTime": micro_timestamp(time.time())})

    async def end(self, *, under_way: bool) -> None:
        """Stop acting at once, and give the lease up so that the next leader need not wait; best effort.

        Args:
            under_way: Whether something that was sent may yet land: then the lease is left to run out.
        """
        led, sure = self._deadline != NEVER, self.leading
        self._step_down()
        if led and under_way:
            log.warning("lease_left_to_run_out", lease=self._name, identity=self.identity)
        if not led or under_way or not self._record.exists:
            return
        try:
            await self._give_up(read=not sure or self._stale)
        except WireError as error:
            log.warning("lease_not_released", lease=self._name, error=str(error))

    async def _give_up(self, *, read: bool) -> None:
        """Write that nobody holds the lease, where it still is ours."""
        if read:
            await self._record.read()
            if self._record.rewound or not self._proven_own():
                return
        try:
            await self._record.write(self._given_up())
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT or read:
                raise
            await self._give_up(read=True)  # a renewal that was cut off may have reached the server all the same
        else:
            log.info("lease_released", lease=self._name, identity=self.identity)

    def _given_up(self) -> dict[str, Any]:
        """The record of a lease that nobody holds any more."""
        moment = micro_timestamp(time.time())
        nobody = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": moment, "acquireTime": moment}
        return {**self._record.spec(), **nobody}

    def _lose(self, why: str) -> None:
        """Stop acting for good."""
        self._step_down()
        raise LeadershipLost(f"{self.identity} lost lease {self._namespace}/{self._name}: {why}")

    def _step_down(self) -> None:
        """Refuse every further write."""
        self._deadline = NEVER
        self._shown(0)
        self._settle()

    def _settle(self) -> None:
        """Wake those who wait to know whether this process leads."""
        settled, self._settled = self._settled, asyncio.Event()
        settled.set()

    def _takeable(self) -> bool:
        """Whether nobody holds the lease, or its holder has been silent for as long as it promised to renew in.

        A holder that could not be asked about goes first, once for each state of the record: a server that fails now
        and then must not keep a dead holder in office.
        """
        spec = self._record.spec()
        if not spec.get("holderIdentity"):
            return True
        promised = spec.get("leaseDurationSeconds") or self._times.lease_seconds
        return self._clock() >= max(self._record.unchanged_since + promised, self._let_first[1])

    def _claim(self) -> dict[str, Any]:
        """Return the record that makes this process the holder, leaving fields of others as they are."""
        spec = self._record.spec()
        moment = micro_timestamp(time.time())
        transitions = self._record.transitions
        changed = self._record.exists and spec.get("holderIdentity") != self.identity
        return {
            **spec,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._times.lease_seconds,
            "acquireTime": moment,
            "renewTime": moment,
            "leaseTransitions": transitions + 1 if changed else transitions,
        }

    def _proven_own(self) -> bool:
        """Whether the record as read is one that this process wrote.

        Our identity alone proves nothing: another process may have been given the same one.
        """
        spec = self._record.spec()
        return spec.get("holderIdentity") == self.identity and spec.get("renewTime") in self._sent

    def _confirm_own(self) -> bool:
        """Whether a write of ours, whose answer was lost, stands in the record and its term still runs."""
        if self._proven_own():
            self._extend(self._sent[self._record.spec()["renewTime"]])
        return self.leading

    def _say_waiting(self, why: str) -> None:
        """Log why this process does not lead, once for each reason."""
        if why != self._waiting_for:
            log.info("lease_not_acquired", lease=self._name, namespace=self._namespace, why=why)
        self._waiting_for = why

    def _extend(self, sent_at: float) -> None:
        """Count the term from when the renewal that is now known to stand was sent."""
        apart = sent_at - self._deadline + self._times.renew_seconds
        if self._deadline != NEVER and apart > self._times.noticed_seconds:
            self.lost_seconds += apart - self._times.retry_seconds  # first, for others look when they may write again
        self._deadline = max(self._deadline, sent_at + self._times.renew_seconds)
        self._shown(1 if self.leading else 0)
        if self.leading:
            self._settle()  # a renewal that was sent in time may be answered after it

    async def _read(self) -> None:
        """Read the record."""
        await self._record.read()
        self._end_with_history()
        self._stale = False

    def _end_with_history(self) -> None:
        """End where the server has gone back in time: a watch goes on at a version, and misses what is below it now.

        Raises:
            LeadershipLost: So it is.
        """
        if self._record.rewound:
            self._step_down()
            why = "the API server was restored from a backup, and everything has to be read anew"
            raise LeadershipLost(f"lease {self._namespace}/{self._name} is an older one than before: {why}")

    async def _write(self, spec: dict[str, Any]) -> None:
        """Write the record, creating it where there is none, and count the term from before the sending."""
        sent_at = self._clock()
        self._sent[spec["renewTime"]] = sent_at
        await self._record.write(spec)
        self._end_with_history()
        # Earlier writes can no longer land: this one has moved the version they were conditioned on.
        self._sent = {spec["renewTime"]: sent_at}
        self._extend(sent_at)
