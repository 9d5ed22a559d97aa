"""A cluster's folder: brings its state back at the start, and keeps it from then on."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tutti_sim.durable.file import DataFile
from tutti_sim.durable.log import Log
from tutti_sim.rest.backend import Backend

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class DataFolder:
    """The folder of one cluster, opened at once; `resume` and `close` are called once each."""

    def __init__(self, folder: Path) -> None:
        self._file = DataFile(folder)
        self._log: Log | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def token(self) -> str | None:
        """The administrator's token, so that a kubeconfig stays good."""
        found = self._file.fact("token")
        return found if isinstance(found, str) else None

    @token.setter
    def token(self, token: str) -> None:
        """Keep it."""
        self._file.note("token", token)

    def resume(self, backend: Backend) -> asyncio.Task[None]:
        """Bring everything back, tell the followers of writes, and keep what happens from now on.

        The task that is returned writes; it ends only when the disk refuses.
        """
        store = backend.store
        log = self._log = Log(self._file, store)
        for collection, event, history in self._file.load(store):
            if history:
                log.remember(collection, event)
            for follower in store.followers:
                follower(collection, event)
        log.begin()
        # With a seed, names and uids would come again.
        backend.draw.seed(f"{backend.draw.random()} {store.revision}")
        _retell(backend)
        backend.settle.append(log.settle)
        self._task = asyncio.create_task(log.run(), name="durable-log")
        return self._task

    async def close(self) -> None:
        """Write what is left, and close the file."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._log is not None:
            self._log.close()
        self._file.close()


def _retell(backend: Backend) -> None:
    """Tell the followers of writes of all that is there, definitions first, as they say what else is served."""
    told = {DEFINITIONS}
    definitions = backend.resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    for version in list(backend.collection(definitions).scan()):
        backend.tell(definitions, None, version)
    for resource in list(backend.registry):
        if resource.storage in told:
            continue
        told.add(resource.storage)
        for version in list(backend.collection(resource).scan()):
            if backend.collection(resource).get(*version.key) is version:
                backend.tell(resource, None, version)
