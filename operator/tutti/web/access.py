"""Who looks at a page, and what he may see.

At home (`tutti ui`) the address that was printed lets in, with a random token; what can be seen is what the kubeconfig
may see, for the API server is asked with nothing else. Beside the operator a bearer token is needed: a TokenReview
says whose it is, SubjectAccessReviews what he may list, and he is shown no more than that. Answers are kept for a short
time under a digest of the token; tokens are not kept at all, and no log line has one.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Protocol

import msgspec
import structlog

from tutti.api.model import GROUP
from tutti.kube.client import Client
from tutti.kube.errors import WireError
from tutti.kube.reviews import TokenUser, is_allowed, user_of_token

log = structlog.get_logger(__name__)

KEPT_SECONDS: Final = 60.0
REFUSED_SECONDS: Final = 5.0
_MOST_KEPT: Final = 512
_MOST_AT_ONCE: Final = 8
MOST_NAMESPACES: Final = 2_000
"""Of so many namespaces it is asked one by one whether somebody may list what is in them."""
_MANY_NAMESPACES: Final = 200
"""Of so many it costs the API server enough to be asked that a refusal is kept as long as an answer."""
_ACCOUNT: Final = "system:serviceaccount:"
"""How names of service accounts begin (kubernetes 1.36, apiserver/pkg/authentication/serviceaccount, MakeUsername)."""
LONGEST_TOKEN: Final = 16 * 1024
LONGEST_COOKIE: Final = 3_500
"""Browsers keep cookies of up to 4,096 bytes, name and attributes included (RFC 6265, 6.1)."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody who looks.

    Attributes:
        name: Who it is, as the API server knows him; "" at home.
        queues: Whether he may see all queues and cohorts, with their quota.
        nodes: Whether he may see nodes.
        namespaces: Those whose workloads he may see; None: all.
    """

    name: str = ""
    queues: bool = True
    nodes: bool = True
    namespaces: frozenset[str] | None = None

    def sees(self, namespace: str) -> bool:
        """Whether workloads of a namespace may be shown to him."""
        return self.namespaces is None or namespace in self.namespaces

    @property
    def sees_all(self) -> bool:
        """Whether he may be told of everybody by name."""
        return self.namespaces is None and self.queues and self.nodes

    @property
    def household(self) -> str:
        """Who is given places together: whoever may make one service account in a namespace may make a thousand."""
        account = self.name.removeprefix(_ACCOUNT)
        return self.name if account == self.name else f"the service accounts of {account.partition(':')[0]}"

    @property
    def scope(self) -> tuple[bool, bool, frozenset[str] | None]:
        """What tells pages apart: whoever may see the same is shown the same."""
        return self.queues, self.nodes, self.namespaces


EVERYTHING: Final = Viewer()


class Refused(Exception):  # noqa: N818 - it says what happened
    """Somebody is not let in.

    Attributes:
        status: 401 for a token that nobody knows, 403 where he may see nothing, 429 and 503 where nobody can tell now.
    """

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Doorkeeper(Protocol):
    """Tells who may look."""

    signs_in: bool
    """Whether somebody may sign in with a token of his own; else the address has it."""

    async def viewer(self, token: str, namespaces: Collection[str]) -> Viewer:
        """Return whose token it is, and what he may see of these namespaces.

        Raises:
            Refused: He may see nothing.
        """
        ...


class AddressToken:
    """At home: whoever has the address that was printed."""

    signs_in = False

    def __init__(self, token: str) -> None:
        self._digest = hashlib.sha256(token.encode()).digest()

    async def viewer(self, token: str, namespaces: Collection[str]) -> Viewer:
        """Return who may see all that the kubeconfig may see."""
        del namespaces
        if not hmac.compare_digest(hashlib.sha256(token.encode(errors="surrogateescape")).digest(), self._digest):
            text = (
                "this address has no token, or that of a run that has ended: open the one that `tutti ui` has printed"
            )
            raise Refused(HTTPStatus.UNAUTHORIZED, text)
        return EVERYTHING


@dataclass(frozen=True, slots=True)
class _Kept:
    until: float
    namespaces: frozenset[str]
    answer: Viewer | Refused


class ClusterRights:
    """Beside the operator: asks the API server whose a token is, and what he may list.

    Args:
        client: May create TokenReviews and SubjectAccessReviews.
        clock: Seconds that go on, from any beginning.
    """

    signs_in = True

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._known: OrderedDict[bytes, _Kept] = OrderedDict()
        self._refused: OrderedDict[bytes, _Kept] = OrderedDict()  # strangers push out one another
        self._asking = {True: 0, False: 0}  # for who is known, and for strangers: neither takes a place of the other
        self._turn = asyncio.Semaphore(_MOST_AT_ONCE)

    async def viewer(self, token: str, namespaces: Collection[str]) -> Viewer:
        """Return whose token it is, and what he may see of these namespaces.

        Raises:
            Refused: He may see nothing, or nobody can tell.
        """
        if not 0 < len(token) <= LONGEST_TOKEN or not token.isascii():
            raise Refused(HTTPStatus.UNAUTHORIZED, "sign in with a token, such as one of `kubectl create token`")
        named = frozenset(sorted(namespaces)[:MOST_NAMESPACES])
        digest = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        kept = self._known.get(digest) or self._refused.get(digest)
        if kept is None or kept.namespaces != named or self._clock() >= kept.until:
            kept = self._keep(digest, named, await self._asked(token, named, known=digest in self._known))
        if isinstance(kept.answer, Refused):
            raise Refused(kept.answer.status, str(kept.answer))
        return kept.answer

    async def _asked(self, token: str, namespaces: frozenset[str], *, known: bool) -> Viewer | Refused:
        """Ask the API server, for so many at once."""
        if self._asking[known] >= _MOST_AT_ONCE:
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "too many are asked about at once: try again in a moment")
        self._asking[known] += 1
        try:
            return await self._found(token, namespaces)
        except (WireError, msgspec.MsgspecError) as error:
            log.warning("viewers_not_authorized", error=str(error))
            text = "the API server does not say who may look: try again in a moment"
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, text) from error
        finally:
            self._asking[known] -= 1

    async def _found(self, token: str, namespaces: frozenset[str]) -> Viewer | Refused:
        """Ask whose a token is, and what he may list."""
        user = await user_of_token(self._client, token)
        if user is None:
            return Refused(HTTPStatus.UNAUTHORIZED, "the API server does not know this token, or it has run out")
        queues, nodes, everywhere = await asyncio.gather(
            self._may_list(user, "clusterqueues", GROUP),
            self._may_list(user, "nodes"),
            self._may_see(user, ""),
        )
        own: frozenset[str] | None = None
        if not everywhere:
            names = sorted(namespaces)
            answers = await asyncio.gather(*(self._may_see(user, one) for one in names))
            own = frozenset(name for name, may in zip(names, answers, strict=True) if may)
        if not (queues or nodes or own is None or own):
            text = (
                f"{user.username} may list neither queues, nor nodes, nor the workloads and pods of any namespace that "
                "has a LocalQueue; the role view, bound in a namespace, lets somebody see what is in it"
            )
            return Refused(HTTPStatus.FORBIDDEN, text)
        return Viewer(user.username, queues, nodes, own)

    async def _may_see(self, user: TokenUser, namespace: str) -> bool:
        """Whether somebody may list what workloads are made of in a namespace; "": in all of them."""
        if not await self._may_list(user, "workloads", GROUP, namespace):
            return False
        return await self._may_list(user, "pods", "", namespace)

    async def _may_list(self, user: TokenUser, resource: str, group: str = "", namespace: str = "") -> bool:
        attributes = {"verb": "list", "group": group, "resource": resource, "namespace": namespace}
        async with self._turn:
            return await is_allowed(self._client, user, "resourceAttributes", attributes)

    def _keep(self, digest: bytes, namespaces: frozenset[str], found: Viewer | Refused) -> _Kept:
        """Remember an answer, and no more than so many."""
        is_refused = isinstance(found, Refused)
        for those in (self._known, self._refused):
            those.pop(digest, None)
        those = self._refused if is_refused else self._known
        while len(those) >= _MOST_KEPT:
            those.popitem(last=False)
        is_brief = is_refused and len(namespaces) <= _MANY_NAMESPACES
        kept = _Kept(self._clock() + (REFUSED_SECONDS if is_brief else KEPT_SECONDS), namespaces, found)
        those[digest] = kept
        return kept
