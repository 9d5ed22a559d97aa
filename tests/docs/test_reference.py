"""The pages of docs/reference say what the models say, and leave nothing unsaid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from handbook.reference import pages

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_are_those_that_the_models_give(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name], "run `make reference`"


def test_no_page_is_left_over() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES)


@pytest.mark.parametrize("name", ["kinds.md", "configuration.md"])
def test_every_field_has_a_meaning(name: str) -> None:
    rows = re.findall(r"^\| `(.+?)` \|.*\| *(.*?) \|$", PAGES[name], re.MULTILINE)
    assert len(rows) > 50
    assert not [path for path, meaning in rows if not meaning]
