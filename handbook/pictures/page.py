"""What is made for a page: pictures by file name, and a table that stands in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Made:
    """Pictures of a run and, where a page has one, the table of its figures.

    Attributes:
        pictures: SVG by file name.
        table: In Markdown; "" where there is none.
    """

    pictures: Mapping[str, str] = field(default_factory=dict)
    table: str = ""


def with_table(page: str, table: str) -> str:
    """Return a page with a table in place of the one that has the same head.

    Raises:
        LookupError: The page has no such table.
    """
    head = table.partition("\n")[0]
    found = re.search(rf"^{re.escape(head)}\n(?:\|.*\n)+", page, re.MULTILINE)
    if found is None:
        raise LookupError(f"the page has no table that begins with {head}")
    return page[: found.start()] + table + page[found.end() :]
