"""What a room is given by the process it runs in, and what it says of itself to others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tutti.api.configuration import TuttiConfiguration
from tutti.controller.cycle import Journal
from tutti.controller.election import Aside
from tutti.controller.health import Health
from tutti.controller.metrics import Metrics
from tutti.kube.client import Client
from tutti.kube.fencing import Fence, Term
from tutti.kube.lease import boot_clock


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a room is given by the process it runs in.

    Attributes:
        clock: The time of day, in Unix seconds.
        ticks: Seconds that go on while the machine sleeps, from any beginning: what a lease is counted in.
        aside: Where the lease is held; None: in the loop of the room, and with its client.
    """

    client: Client
    configuration: TuttiConfiguration
    health: Health
    metrics: Metrics
    journal: Journal | None = None
    clock: Callable[[], float] = time.time
    ticks: Callable[[], float] = boot_clock
    aside: Aside | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """How a process stands with its replicas, for those who write.

    Attributes:
        fence: Asked before each write.
        term: Returns what writes record of the lease.
        identity: The name of this process.
    """

    fence: Fence
    term: Callable[[], Term | None]
    identity: str
