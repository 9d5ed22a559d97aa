"""Who may read /metrics: whoever the API server knows by a bearer token, and lets `get` the path /metrics.

As controller-runtime's filter has it (0.22, pkg/metrics/filters, WithAuthenticationAndAuthorization): a TokenReview,
then a SubjectAccessReview of a path that is no resource. What the API server says is kept for a short time, under a
digest of the token; how many are asked about at once is bounded, so that nobody floods the API server through this.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog

from tutti.kube.client import Client
from tutti.kube.errors import WireError

log = structlog.get_logger(__name__)

PATH: Final = "/metrics"
_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_KEPT_SECONDS: Final = {HTTPStatus.OK: 60.0, HTTPStatus.FORBIDDEN: 10.0, HTTPStatus.UNAUTHORIZED: 10.0}
_MOST_KEPT: Final = 256
_MOST_AT_ONCE: Final = 8
_LONGEST_TOKEN: Final = 16 * 1024


class _User(msgspec.Struct, frozen=True):
    """Who somebody is (authentication.k8s.io/v1, UserInfo)."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _Known(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()


class _Token(msgspec.Struct, frozen=True):
    status: _Known = _Known()


class _Allowed(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Access(msgspec.Struct, frozen=True):
    status: _Allowed = _Allowed()


class Readers:
    """Tells who may read metrics, and remembers it for a while."""

    def __init__(self, client: Client, *, clock: Callable[[], float] | None = None) -> None:
        self._client = client
        self._clock = clock or asyncio.get_running_loop().time
        self._kept: dict[bytes, tuple[float, HTTPStatus]] = {}
        self._asking = 0

    async def verdict(self, authorization: str) -> HTTPStatus:
        """Return with which status to answer whoever sends this header: 200, or why not.

        401 without a token that is known, 403 for those who may not, 429 while too many are asked about, and 503 where
        the API server does not say.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not 0 < len(token) <= _LONGEST_TOKEN:
            return HTTPStatus.UNAUTHORIZED
        digest = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        until, kept = self._kept.get(digest, (0.0, HTTPStatus.OK))
        if self._clock() < until:
            return kept
        if self._asking >= _MOST_AT_ONCE:
            return HTTPStatus.TOO_MANY_REQUESTS
        self._asking += 1
        try:
            found = await self._asked(token)
        except (WireError, msgspec.MsgspecError) as error:
            log.warning("metrics_not_authorized", error=str(error))
            return HTTPStatus.SERVICE_UNAVAILABLE
        finally:
            self._asking -= 1
        self._keep(digest, found)
        return found

    async def _asked(self, token: str) -> HTTPStatus:
        """Ask the API server whose a token is, and whether he may."""
        answer = await self._review(_TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
        known = msgspec.json.decode(answer, type=_Token).status
        if not known.authenticated:
            return HTTPStatus.UNAUTHORIZED
        user = known.user
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups or [],
            "extra": user.extra or {},
            "nonResourceAttributes": {"path": PATH, "verb": "get"},
        }
        answer = await self._review(_ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        allowed = msgspec.json.decode(answer, type=_Access).status.allowed
        return HTTPStatus.OK if allowed else HTTPStatus.FORBIDDEN

    async def _review(self, path: str, version: str, kind: str, spec: dict[str, Any]) -> bytes:
        body = json.dumps({"apiVersion": version, "kind": kind, "spec": spec}).encode()
        return await self._client.request("POST", path, body=body)

    def _keep(self, digest: bytes, found: HTTPStatus) -> None:
        """Remember a verdict, and no more than so many."""
        self._kept.pop(digest, None)
        while len(self._kept) >= _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[digest] = (self._clock() + _KEPT_SECONDS[found], found)
