"""Pictures and tables of pages show what a run comes to now, can be read by everybody, and stand on their pages."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from handbook.pictures.page import Made, with_table
from handbook.pictures.simulated import kept, order_of
from handbook.pictures.topics import DOCS, PAGES, QUICK, slow_topics

SLOW = slow_topics()
MOST_BYTES = 16_000


def is_shown(name: str, made: Made) -> None:
    """What was made is what is committed, on its page, with words for who does not see it."""
    assert made.pictures
    page = (DOCS / PAGES[name]).read_text("utf-8")
    for file, text in made.pictures.items():
        assert (DOCS / "pictures" / file).read_text("utf-8") == text, f"make pictures: {file} shows an older run"
        assert len(text) < MOST_BYTES
        root = ET.fromstring(text)
        assert root.get("role") == "img"
        assert root[0].tag.endswith("title")
        assert root[1].get("fill") == "white"  # a ground of its own: read on light and on dark pages
        assert re.search(rf"!\[[^\]]{{20,}}\]\([./]*pictures/{re.escape(file)}\)", page), (
            f"{file} is not on {PAGES[name]}"
        )
    if made.table:
        assert made.table in page, f"make pictures: the table of {PAGES[name]} is of an older run"


@pytest.mark.parametrize("name", QUICK)
def test_what_a_page_shows_is_what_a_run_comes_to_now(name: str) -> None:
    is_shown(name, QUICK[name]())


@pytest.mark.parametrize("name", [name for name in PAGES if name not in QUICK])
def test_what_takes_minutes_to_play_is_shown_as_it_was_played(name: str) -> None:
    is_shown(name, SLOW[name])


def test_an_order_that_is_played_again_comes_to_the_figures_that_are_kept() -> None:
    assert order_of("helios", "Shortest") == kept()["orders"]["helios"]["Shortest"]


def test_a_table_stands_where_one_with_its_head_stood() -> None:
    page = "a\n\n| x | y |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\nb\n"
    assert with_table(page, "| x | y |\n|---|---|\n| 5 | 6 |\n") == "a\n\n| x | y |\n|---|---|\n| 5 | 6 |\n\nb\n"
    with pytest.raises(LookupError, match="no table that begins with"):
        with_table(page, "| z |\n|---|\n")
