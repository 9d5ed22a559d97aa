"""Which pictures and tables there are, who makes them, and on which page a table stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from handbook.pictures import data, interference, load, network, plugins, simulate, throttles, what_if
from handbook.pictures.page import Made, with_table
from handbook.pictures.simulated import PLAYED, kept

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
QUICK: Final[Mapping[str, Callable[[], Made]]] = {
    "load": load.made,
    "throttles": throttles.made,
    "data": data.made,
    "interference": interference.made,
    "network": network.made,
    "what-if": what_if.made,
    "simulate": simulate.made,
    "plugins": plugins.made,
}
"""What takes seconds, and is run by a test as well."""
PAGES: Final[Mapping[str, str]] = {
    "load": "howto/load.md",
    "throttles": "throttles.md",
    "data": "howto/data.md",
    "interference": "howto/interference.md",
    "network": "howto/network.md",
    "what-if": "howto/what-if.md",
    "simulate": "howto/simulate.md",
    "plugins": "plugins.md",
    "orders": "howto/orders.md",
    "flavors": "howto/flavors.md",
    "elastic": "howto/elastic.md",
    "learned": "howto/simulate.md",
}
"""The page of each topic, below docs."""


def slow_topics() -> dict[str, Made]:
    """Return what is drawn of the figures that were kept."""
    figures = kept()
    return {name: draw(figures[name]) for name, (_, draw) in PLAYED.items() if name in figures}


def put(name: str, made: Made) -> None:
    """Write the pictures of a topic, and its table into its page."""
    for file, text in made.pictures.items():
        (DOCS / "pictures" / file).write_text(text, "utf-8")
    if made.table:
        page = DOCS / PAGES[name]
        page.write_text(with_table(page.read_text("utf-8"), made.table), "utf-8")
