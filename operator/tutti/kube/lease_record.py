"""The Lease as last read or written; every write of it is a compare-and-swap on its resourceVersion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from tutti.kube.client import Client
from tutti.kube.errors import ApiError
from tutti.kube.fencing import LeaseTerm
from tutti.kube.resources import LEASES

NEVER: Final = float("-inf")


class LeaseRecord:
    """One Lease on the API server.

    What is not answered is given up after `timeout_seconds`. To read it is asked for again beside that whenever there
    is no answer for `again_seconds`: what an API server has sent to an etcd that was away it often goes on waiting for
    when that is back, while it answers what comes then (kube-apiserver 1.36: a GET was open for five seconds more).

    Attributes:
        unchanged_since: Since when it has been as it is, by the clock given.
        term: Its uid and how often it has changed hands, which each bind records; None where there is no Lease.
        rewound: Whether an older one was seen than before, as where the server was restored from a backup. Nobody
            deletes a Lease into its past: its version, where it is made anew, is higher than any that was.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        *,
        timeout_seconds: float,
        again_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self.unchanged_since = NEVER
        self.term: LeaseTerm | None = None
        self.rewound = False
        self._newest = 0
        self._client = client
        self._namespace = namespace
        self._name = name
        self._timeout_seconds = timeout_seconds
        self._again_seconds = again_seconds
        self._clock = clock
        self._document: dict[str, Any] | None = None

    @property
    def exists(self) -> bool:
        """Whether there was one when it was read or written last."""
        return self._document is not None

    @property
    def version(self) -> str:
        """The resourceVersion of the Lease; empty where there is none."""
        return _version(self._document)

    @property
    def transitions(self) -> int:
        """How often the lease has changed hands."""
        return self.spec().get("leaseTransitions") or 0

    def spec(self) -> dict[str, Any]:
        """Return what is written in it, as last known."""
        return dict((self._document or {}).get("spec") or {})

    async def read(self) -> None:
        """Read it, and note when it last changed.

        Raises:
            WireError: It could not be read; what was known stands.
        """
        document = await self._fetch()
        if document is not None and _version(document) != self.version:
            self.unchanged_since = self._clock()
        self._keep(document)

    async def stands(self) -> bool:
        """Ask the server whether it has the same holder as when it was read or written last; that stays what is known.

        Raises:
            WireError: It could not be read.
        """
        term, holder = self.term, self.spec().get("holderIdentity")
        found = await self._fetch()
        return found is not None and _term(found) == term and (found.get("spec") or {}).get("holderIdentity") == holder

    async def _fetch(self) -> dict[str, Any] | None:
        """Return what the server has; None where there is no Lease."""
        try:
            body = await self._asked_for()
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None
        document: dict[str, Any] = msgspec.json.decode(body)
        return document

    async def write(self, spec: dict[str, Any]) -> None:
        """Replace it if it still is the one last known, or create it where there was none.

        Raises:
            WireError: It was not written, or nobody knows.
        """
        if self._document is None:
            metadata = {"name": self._name, "namespace": self._namespace}
            document = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": metadata, "spec": spec}
            body = await self._request("POST", LEASES.path(self._namespace), document, self._timeout_seconds)
        else:
            document = {**self._document, "spec": spec}
            path = LEASES.path(self._namespace, self._name)
            body = await self._request("PUT", path, document, self._timeout_seconds)
        self._keep(msgspec.json.decode(body))

    def _keep(self, document: dict[str, Any] | None) -> None:
        """Remember it as it is now."""
        self._document = document
        self.term = None if document is None else _term(document)
        if self.version.isdecimal():
            self.rewound = self.rewound or int(self.version) < self._newest
            self._newest = max(self._newest, int(self.version))

    async def _asked_for(self) -> bytes:
        """Return the first answer to as many requests as it takes."""
        path, clock = LEASES.path(self._namespace, self._name), asyncio.get_running_loop().time
        until = clock() + self._timeout_seconds
        asked: set[asyncio.Task[bytes]] = set()
        try:
            while True:
                seconds = max(until - clock(), self._again_seconds)
                asked.add(asyncio.create_task(self._request("GET", path, None, seconds), name="lease"))
                await asyncio.wait(asked, timeout=self._again_seconds, return_when=asyncio.FIRST_COMPLETED)
                for one in asked:
                    if one.done():
                        return one.result()
        finally:
            for one in asked:
                one.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    async def _request(self, method: str, path: str, document: dict[str, Any] | None, seconds: float) -> bytes:
        """Send a request that is over when nobody waits for it any longer.

        What the server still worked on after that, such as when its storage was away, would have the lease look renewed
        by a holder that has given up, and cost the next one a whole lease.
        """
        body = None if document is None else msgspec.json.encode(document)
        return await self._client.request(method, path, body=body, timeout_seconds=seconds, bounded=True)


def _term(document: dict[str, Any]) -> LeaseTerm:
    """Return the uid of a Lease, and how often it has changed hands."""
    return LeaseTerm(
        str(document["metadata"].get("uid", "")), (document.get("spec") or {}).get("leaseTransitions") or 0
    )


def _version(document: dict[str, Any] | None) -> str:
    """Return the resourceVersion; empty where there is no document."""
    return str(document["metadata"]["resourceVersion"]) if document else ""
