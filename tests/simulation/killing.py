"""A process is killed at one of its writes, before or after the server has it."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.network import Sent
from tests.simulation.shards import ShardedWorld
from tests.simulation.world import World


class Killer:
    """Kills the process that sends the n-th write that counts, `before` or `after` the server has it.

    Attributes:
        count: How many writes that count were sent.
        victim: The write at which the process was killed.
    """

    def __init__(self, number: int, when: str, counts: Callable[[Sent], bool]) -> None:
        self.number, self.when, self.counts = number, when, counts
        self.count = 0
        self.victim: Sent | None = None

    def prepare(self, world: World | ShardedWorld) -> None:
        """Have the process of a world killed when it comes to that write."""

        def kill(sent: Sent) -> None:
            world.operators[sent.owner.split(".")[0]].crash()

        def sending(sent: Sent) -> None:
            if self.counts(sent):
                self.count += 1
                if self.count == self.number:
                    self.victim = sent
                    if self.when == "before":
                        kill(sent)

        def handled(sent: Sent, _: int) -> None:
            if sent is self.victim and self.when == "after":
                kill(sent)

        world.network.sending.append(sending)
        world.network.handled.append(handled)
