"""The pages of docs/reference say what the models say, and leave nothing unsaid."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from handbook.reference import pages

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
made = cache(pages)  # not by every process that collects these tests


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir()))
def test_the_pages_are_those_that_the_models_give(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == made()[name], "run `make reference`"


def test_there_is_every_page() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(made())


@pytest.mark.parametrize("name", ["kinds.md", "configuration.md"])
def test_every_field_has_a_meaning(name: str) -> None:
    rows = re.findall(r"^\| `(.+?)` \|.*\| *(.*?) \|$", made()[name], re.MULTILINE)
    assert len(rows) > 50
    assert not [path for path, meaning in rows if not meaning]
