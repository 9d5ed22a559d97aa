"""What is read once: a list, in pages of one consistent snapshot, and one object, as after a write left unanswered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import msgspec

from tutti.kube.client import Client
from tutti.kube.decoding import cut_depth, object_decoder, replace_half_surrogates
from tutti.kube.errors import ApiError, UnknownOutcome
from tutti.kube.resources import PODS
from tutti.kube.retry import retrying


class ListMeta(msgspec.Struct, frozen=True, rename={"resource_version": "resourceVersion", "cursor": "continue"}):
    """Which snapshot this is, and where it goes on (meta/v1 ListMeta)."""

    resource_version: str = ""
    cursor: str = ""


class ListPage(msgspec.Struct, frozen=True):
    """One page, its objects still undecoded, and how many bytes it came in. Go writes an empty list as null."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None
    size: int = 0


_PAGE: Final = msgspec.json.Decoder(ListPage)


@dataclass(frozen=True, slots=True)
class ListScope:
    """What is listed and watched: a collection's path, narrowed by selectors on the server."""

    path: str
    label_selector: str = ""
    field_selector: str = ""

    def query(self, **more: str) -> dict[str, str]:
        """Return the query that selects this, with further parameters; empty ones are left out."""
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {name: value for name, value in {**selectors, **more}.items() if value}


FIRST_PAGE: Final = 100
"""Objects of the first page of a list, of which nobody knows yet how large they are."""
PAGE_BYTES: Final = 8 * 1024 * 1024
"""How large a page is to be at most; the last one tells how many objects that is."""


def next_limit(limit: int, page: ListPage, *, most: int) -> int:
    """Return how many objects the page after one of `limit` objects is to have, at most `most`; 0 stays 0."""
    if not limit:
        return 0
    count = len(page.items or ()) or limit
    return max(1, min(most, count * PAGE_BYTES // max(page.size, 1)))


async def fetch_page(client: Client, scope: ListScope, *, limit: int, cursor: str = "", tries: int = 3) -> ListPage:
    """Get one page; 0 for `limit` means everything in one.

    Raises:
        ApiError: The server refused; 410 where the snapshot of the cursor is no longer kept.
        NotSent: There was no connection.
        UnknownOutcome: The answer never came, or is no list.
    """
    query: Mapping[str, str] = scope.query(**{"limit": str(limit) if limit else "", "continue": cursor})
    body = await retrying(lambda: client.request("GET", scope.path, query=query), tries=tries)
    try:
        return msgspec.structs.replace(_page(body), size=len(body))
    except msgspec.MsgspecError as error:
        raise UnknownOutcome(f"GET {scope.path}: the answer is no list: {error}") from error


def _page(body: bytes) -> ListPage:
    try:
        return _PAGE.decode(body)
    except (RecursionError, msgspec.MsgspecError):
        return _PAGE.decode(replace_half_surrogates(cut_depth(body)))


async def fetch_all(client: Client, scope: ListScope, *, page_size: int = 500) -> list[msgspec.Raw]:
    """Get everything once, still undecoded, in the order in which the server has it.

    Raises:
        ApiError: The server refused.
        NotSent: There was no connection.
        UnknownOutcome: The answer never came, or is no list.
    """
    found: list[msgspec.Raw] = []
    cursor, limit = "", page_size
    while True:
        try:
            page = await fetch_page(client, scope, limit=limit, cursor=cursor)
        except ApiError as error:
            if error.status != HTTPStatus.GONE or not cursor:
                raise
            found, cursor, limit = [], "", 0  # its snapshot was not kept until the last page: all in one piece
            continue
        found += page.items or ()
        cursor = page.metadata.cursor
        if not cursor:
            return found


class PodMeta(msgspec.Struct, frozen=True, rename="camel"):
    """Which pod it is, and whether it is leaving."""

    uid: str = ""
    deletion_timestamp: str | None = None


class PodPlace(msgspec.Struct, frozen=True, rename="camel"):
    """Where it is, and what keeps it from being anywhere."""

    node_name: str = ""
    scheduling_gates: list[dict[str, Any]] | None = None


class PodNow(msgspec.Struct, frozen=True):
    """A pod as the server has it now."""

    metadata: PodMeta = PodMeta()
    spec: PodPlace = PodPlace()


_POD: Final = object_decoder(PodNow)


async def fetch_object(client: Client, path: str, *, tries: int = 5) -> bytes | None:
    """Return one object as the server writes it; None where there is none.

    Raises:
        WireError: It could not be read, however often tried.
    """
    try:
        return await retrying(lambda: client.request("GET", path), tries=tries)
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise


async def read_pod(client: Client, namespace: str, name: str, *, uid: str = "", tries: int = 5) -> PodNow | None:
    """Return the pod; None where it, or the one with this uid, is no more.

    Raises:
        WireError: It could not be read, however often tried.
    """
    body = await fetch_object(client, PODS.path(namespace, name), tries=tries)
    pod = None if body is None else _POD(body)
    return None if pod is None or (uid and pod.metadata.uid != uid) else pod
