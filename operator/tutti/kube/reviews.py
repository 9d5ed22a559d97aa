"""Asking the API server whose a token is, and what somebody may do: TokenReview and SubjectAccessReview.

For whoever answers others in the operator's name: metrics (`controller/serving.py`) and pages (`web/access.py`). What
is answered is kept there, each as long as it suits; nothing is kept here, and no token is logged.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from tutti.kube.client import Client

_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_RIGHTS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class TokenUser(msgspec.Struct, frozen=True):
    """Who somebody is (authentication.k8s.io/v1, UserInfo)."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _Known(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: TokenUser = TokenUser()


class _OfToken(msgspec.Struct, frozen=True):
    status: _Known = _Known()


class _Allowed(msgspec.Struct, frozen=True):
    allowed: bool = False


class _OfRight(msgspec.Struct, frozen=True):
    status: _Allowed = _Allowed()


async def user_of_token(client: Client, token: str) -> TokenUser | None:
    """Return whose a token is; None where the API server does not know it.

    Raises:
        WireError: The API server refused to say, or could not be reached.
        MsgspecError: Its answer cannot be read.
    """
    answer = await _review(client, _TOKENS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
    known = msgspec.json.decode(answer, type=_OfToken).status
    return known.user if known.authenticated else None


async def is_allowed(client: Client, user: TokenUser, attributes: str, asked: dict[str, str]) -> bool:
    """Return whether somebody may do something.

    Args:
        client: May create SubjectAccessReviews.
        user: Who.
        attributes: `resourceAttributes` or `nonResourceAttributes`.
        asked: What, as one of these.

    Raises:
        WireError: The API server refused to say, or could not be reached.
        MsgspecError: Its answer cannot be read.
    """
    spec = {
        "user": user.username,
        "uid": user.uid,
        "groups": user.groups or [],
        "extra": user.extra or {},
        attributes: asked,
    }
    answer = await _review(client, _RIGHTS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
    return msgspec.json.decode(answer, type=_OfRight).status.allowed


async def _review(client: Client, path: str, version: str, kind: str, spec: dict[str, Any]) -> bytes:
    body = json.dumps({"apiVersion": version, "kind": kind, "spec": spec}).encode()
    return await client.request("POST", path, body=body)
