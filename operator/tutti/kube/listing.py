"""The wire form of a list: pages of one consistent snapshot, tied together by continue tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from tutti.kube.client import Client
from tutti.kube.errors import UnknownOutcome
from tutti.kube.retry import retrying


class ListMeta(msgspec.Struct, frozen=True, rename={"resource_version": "resourceVersion", "cursor": "continue"}):
    """Which snapshot this is, and where it goes on (meta/v1 ListMeta)."""

    resource_version: str = ""
    cursor: str = ""


class Page(msgspec.Struct, frozen=True):
    """One page, its objects still undecoded. Go writes an empty list as null."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


_PAGE: Final = msgspec.json.Decoder(Page)


@dataclass(frozen=True, slots=True)
class Scope:
    """What is listed and watched: a collection's path, narrowed by selectors on the server."""

    path: str
    label_selector: str = ""
    field_selector: str = ""

    def query(self, **more: str) -> dict[str, str]:
        """Return the query that selects this, with further parameters; empty ones are left out."""
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {name: value for name, value in {**selectors, **more}.items() if value}


async def fetch_page(client: Client, scope: Scope, *, limit: int, cursor: str = "", tries: int = 3) -> Page:
    """Get one page; 0 for `limit` means everything in one.

    Raises:
        ApiError: The server refused; 410 where the snapshot of the cursor is no longer kept.
        NotSent: There was no connection.
        UnknownOutcome: The answer never came, or is no list.
    """
    query: Mapping[str, str] = scope.query(**{"limit": str(limit) if limit else "", "continue": cursor})
    body = await retrying(lambda: client.request("GET", scope.path, query=query), tries=tries)
    try:
        return _PAGE.decode(body)
    except msgspec.MsgspecError as error:
        raise UnknownOutcome(f"GET {scope.path}: the answer is no list: {error}") from error
