"""A consumer of an informer, for tests: what it is told, and that nothing of it contradicts what it was told before."""

import asyncio
from contextlib import asynccontextmanager

import msgspec

from tutti.kube.decoding import Meta
from tutti.kube.informer import Informer
from tutti.kube.resources import PODS
from tutti.kube.retry import Backoff
from tutti.kube.store import Deletion, ObjectKey, Upsert


class Thing(msgspec.Struct):
    value: int = 0


class Named(Thing):
    """The same with its metadata, so that it is read in one pass."""

    metadata: Meta = Meta()


class World:
    """What a consumer makes of the changes, refusing any that contradict what it was told before."""

    def __init__(self) -> None:
        self.things: dict[ObjectKey, tuple[str, int]] = {}
        self.history: list[Upsert[Thing] | Deletion] = []
        self._changed = asyncio.Event()

    def deliver(self, changes) -> None:
        assert changes
        for change in changes:
            self.history.append(change)
            held = self.things.get(change.key)
            if isinstance(change, Deletion):
                assert held is None or held[0] == change.uid
                self.things.pop(change.key, None)
            else:
                assert held is None or held[0] == change.uid, "another object under the same name was not Gone first"
                self.things[change.key] = (change.uid, change.obj.value)
        self._changed.set()

    def values(self) -> dict[str, int]:
        return {key.name: value for key, (_, value) in self.things.items()}

    async def until(self, values: dict[str, int]) -> None:
        while self.values() != values:
            await self._changed.wait()
            self._changed.clear()


@asynccontextmanager
async def informing(server, world, view=Thing, resource=PODS, **options):
    options.setdefault("streams", True)
    options.setdefault("backoff", Backoff(first=0.001, longest=0.01))
    informer = Informer(server.client, resource, view=view, deliver=world.deliver, **options)
    task = asyncio.create_task(informer.run())
    try:
        yield informer
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])


def metric(server, name, **labels):
    return getattr(server.client.metrics, name).labels("pods", *labels.values())._value.get()


async def anew(informer):
    """Have everything listed anew; not to be waited for long."""
    async with asyncio.timeout(60):
        await informer.list_anew()
