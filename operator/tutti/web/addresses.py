"""Which page an address is: a path, and what it asks for beside it. An address says all that its page shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from tutti.web.access import Viewer
from tutti.web.documents import PageDocument
from tutti.web.pages.asking import NotShown, PageRequest
from tutti.web.pages.nodes import nodes_page
from tutti.web.pages.queues import queue_page, queues_page
from tutti.web.pages.work import decisions_page, gangs_page
from tutti.web.pages.workload import workload_page
from tutti.web.picture import SHARDED, Picture

_LONGEST: Final = 2_048
_LONGEST_WORD: Final = 320
_MOST_FIELDS: Final = 32
_ASKED: Final[frozenset[str]] = frozenset(
    {"resources", "resource", "topology", "model", "node", "namespace", "name", "state", "reason", "from", "kind"}
)
_PAGES: Final[Sequence[tuple[re.Pattern[str], Callable[[PageRequest], PageDocument]]]] = (
    (re.compile(r"/"), queues_page),
    (re.compile(r"/queue/(?P<name>[^/]+)"), queue_page),
    (re.compile(r"/workload/(?P<namespace>[^/]+)/(?P<name>[^/]+)"), workload_page),
    (re.compile(r"/nodes"), nodes_page),
    (re.compile(r"/gangs"), gangs_page),
    (re.compile(r"/decisions"), decisions_page),
)
_ANYWHERE: Final = frozenset({queues_page, queue_page, nodes_page, gangs_page})
"""Pages with numbers, which would be wrong where not everything could be listed."""


class PageAddress(NamedTuple):
    """A page: its path as it is in an address, and what is asked for, in the order of names."""

    path: str
    query: tuple[tuple[str, str], ...] = ()


def page_address(text: str) -> PageAddress | None:
    """Return which page a path with a query leads to; None where it is none. What no page asks for is left out."""
    if len(text) > _LONGEST or not text.isprintable():
        return None
    try:
        parts = urlsplit(text)
        asked = parse_qsl(parts.query, max_num_fields=_MOST_FIELDS)
    except ValueError:  # brackets that are no IPv6 address, or too many fields
        return None
    if parts.scheme or parts.netloc or not any(pattern.fullmatch(parts.path) for pattern, _ in _PAGES):
        return None
    query = {name: value for name, value in asked if name in _ASKED and value}
    return PageAddress(parts.path, tuple(sorted((name, value[:_LONGEST_WORD]) for name, value in query.items())))


def made_page(picture: Picture, address: PageAddress, viewer: Viewer) -> PageDocument:
    """Make the page of an address.

    Raises:
        NotShown: There is no such thing that the viewer may see.
    """
    for pattern, make in _PAGES:
        found = pattern.fullmatch(address.path)
        if found is None:
            continue
        names: Mapping[str, str] = {name: unquote(value) for name, value in found.groupdict().items()}
        if picture.lacks and make in _ANYWHERE:
            refused = picture.lacks not in ("", SHARDED) and not picture.listed.missing
            raise NotShown(picture.lacks + ("; an administrator can let you: see manifests/viewer.yaml" * refused))
        return make(PageRequest(picture, viewer, names, dict(address.query)))
    raise NotShown(f"there is no page {address.path}")
