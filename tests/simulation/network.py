"""The way between the processes of a simulated cluster and its server: what is sent, and everything that can go wrong with it."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.simulation.server import Server
from tutti.kube.errors import UnknownOutcome, WireError

LONGEST_WAY_SECONDS = 2.0
"""Less than a leader's term leaves of its lease for the way (`LeaseTimes.way_seconds`).

A status of ours may be on its way for longer than a lease lasts where the server checks schemas, which refuse what a former
leader has written. Nothing refuses a late binding of a pod that still waits; there the lease must leave time enough.
"""
WATCH = "WATCH"
"""The method of a request that opens a watch, as `Sent` has it."""


@dataclass(frozen=True)
class Sent:
    """A request of a process."""

    owner: str
    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    content_type: str

    @property
    def what(self) -> str:
        """The plural and subresource that it is about: `pods/binding`, `leases`; empty where it is about no resource."""
        parts = self.path.strip("/").split("/")
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        if len(rest) > 2 and rest[0] == "namespaces":
            rest = rest[2:]
        return "/".join([*rest[:1], *rest[2:3]])

    @property
    def is_write(self) -> bool:
        return self.method not in ("GET", WATCH)


@dataclass
class Trouble:
    """What is to happen to the next requests that match, so many of them.

    `how` is `refuse` (the server answers `code` and does nothing), `spoil` (it answers `code` and has done it), `lose`
    (the request is lost on its way), `swallow` (its answer is), `hold` (the server takes `seconds` longer, but gives up
    when it was told to) or `late` (the connection breaks, and the server does it all the same so much later, if it had as
    much time). `name` is that of an object, and `owner` that of a process; empty for all. A refusal asks to be
    left alone for `retry_after` seconds, if it says anything of that. Of what opens a watch, of which nothing can be
    spoilt, the method is `WATCH`.
    """

    what: str
    method: str
    how: str
    code: int = 500
    seconds: float = 0.0
    times: int = 1
    name: str = ""
    owner: str = ""
    retry_after: int | None = None

    def concerns(self, sent: Sent) -> bool:
        about = self.what in ("", sent.what) and self.method in ("", sent.method) and self.owner in ("", sent.owner)
        return self.times > 0 and about and (not self.name or f"/{self.name}/" in f"{sent.path}/")


@dataclass
class Watch:
    """An open watch: what has been sent and not read yet. An error in the queue ends it, None ends it well.

    One that is `silent` tells of nothing any more, though nobody has closed it; with `marks`, of bookmarks alone.
    """

    owner: str
    what: str
    lines: deque[bytes | WireError | None] = field(default_factory=deque)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    last: float = 0.0
    silent: bool = False
    marks: bool = False

    def deliver(self, *lines: bytes | WireError | None) -> None:
        self.lines.extend(lines)
        self.arrived.set()


class Network:
    """Everything between processes and the server.

    Attributes:
        latency: Draws how many seconds a message travels.
        lags: Extra seconds that changes of a kind take to reach a process, by process and plural; "" means all.
        doubled: Plurals whose changes arrive twice.
        down_until: Before this time no connection can be made.
        breaks: How often all connections were broken, and what was on its way or at the server was lost with them.
        sending: Called when a process sends a request, before anything is done.
        handled: Called when the server has handled a request, with the code of its answer.
    """

    def __init__(self, server: Server, draw: random.Random) -> None:
        self.server = server
        self._draw = draw
        self.troubles: list[Trouble] = []
        self.lags: dict[tuple[str, str], float] = {}
        self.doubled: set[str] = set()
        self.down_until = 0.0
        self.breaks = 0
        self.dead: set[str] = set()
        self.slowness = 1.0
        self.sending: list[Callable[[Sent], None]] = []
        self.handled: list[Callable[[Sent, int], None]] = []
        self.watches: list[Watch] = []

    def latency(self, what: str = "") -> float:
        """Mostly milliseconds, now and then a second; so long that a lease runs out only for what is refused then."""
        base = 0.001 + 0.01 * self._draw.random()
        seconds = self.slowness * (base if self._draw.random() < 0.9 else 100 * base)
        refused = self.server.strict and what.endswith("/status") and what != "pods/status"
        return seconds if refused else min(LONGEST_WAY_SECONDS, seconds)

    def trouble_for(self, sent: Sent) -> Trouble | None:
        for one in self.troubles:
            if one.concerns(sent):
                one.times -= 1
                return one
        return None

    def is_down(self, now: float) -> bool:
        return now < self.down_until

    def drop(self, owner: str, what: str) -> None:
        """Break watches, and lose what was on its way to their readers."""
        for watch in self.watches:
            if owner in ("", watch.owner) and what in ("", watch.what):
                watch.lines.clear()
                watch.deliver(UnknownOutcome("the connection broke"))

    def silence(self, owner: str, what: str, *, marks: bool) -> None:
        """Have watches tell of nothing any more that happens from now on, and stay open; with `marks`, of bookmarks."""
        for watch in self.watches:
            if owner in ("", watch.owner) and what in ("", watch.what):
                watch.silent, watch.marks = True, marks

    def break_silence(self) -> None:
        """Break the watches that have fallen silent."""
        for watch in self.watches:
            if watch.silent:
                watch.lines.clear()
                watch.deliver(UnknownOutcome("the connection broke"))

    def break_all(self) -> None:
        """Break every connection, with the requests and answers that are on their way over it."""
        self.breaks += 1
        self.drop("", "")

    def lag(self, owner: str, what: str) -> float:
        pairs = ((owner, what), (owner, ""), ("", what), ("", ""))
        return max(self.lags.get(pair, 0.0) for pair in pairs)
