"""Docstrings, the map and the decisions name modules and what is in them that exist: whoever follows one finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.counting import within
from tests.house.references import dangling, dangling_in
from tests.house.rooms import rooms
from tests.house.source import loaded, parsed

pytestmark = pytest.mark.xdist_group("house")  # the source is read once for all of them

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs" / "architecture.md"
PAGES = [MAP, ROOT / "docs" / "glossary.md", *sorted((ROOT / "docs" / "adr").glob("*.md"))]
ELSEWHERE = {
    "tutti/api/model.py: use_attribute_docstrings",  # pydantic's
}


def test_what_docstrings_of_the_operator_name_is_there():
    lost = {one for one in dangling(loaded(ROOT / "operator")) if not (ROOT / one.partition(": ")[2]).is_file()}
    assert lost == ELSEWHERE


def test_what_the_map_and_the_decisions_name_is_there():
    pages = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    found = dangling_in(pages, loaded(ROOT / "operator"))
    assert not [one for one in found if not (ROOT / one.partition(": ")[2]).is_file()]


@pytest.mark.parametrize("package", ["tutti", "tutti.engine"])
def test_every_room_is_on_the_map(package: str):
    inside = within(loaded(ROOT / "operator"), package)
    named = MAP.read_text(encoding="utf-8")
    found = {*rooms(inside, package)} - {"__main__"}
    assert not [room for room in found if f"`{room}/`" not in named and f"{room}.py" not in named]


@pytest.mark.parametrize(
    ("said", "lost"),
    [
        ("`one.py`", []),
        ("`p/one.py`", []),
        ("`gone.py`", ["gone.py"]),
        ("`q/one.py`", ["q/one.py"]),
        ("`MOST_NAMES`", []),
        ("`LEAST_NAMES`", ["LEAST_NAMES"]),
        ("`read_all`", []),
        ("`read_none`", ["read_none"]),
        ("`_own`", []),
        ("`_other`", ["_other"]),
        ("`word`, `minCount`, `a = b`, `fit.go`", []),
    ],
)
def test_a_name_is_lost_that_nothing_defines_and_a_path_that_no_module_has(said: str, lost: list[str]):
    tree = parsed(
        {
            "p/__init__.py": "",
            "p/one.py": "MOST_NAMES = 3\ndef read_all(_own): ...",
            "p/two.py": f'def f():\n    """See {said}."""',
        }
    )
    assert list(dangling(tree)) == [f"p/two.py: {one}" for one in lost]


@pytest.mark.parametrize(
    ("said", "lost"),
    [
        ("`p/one.py`, `p/{one,two}.py`, `p/o*.py`", []),
        ("`p/{one,gone}.py`", ["p/{one,gone}.py"]),
        ("`q/o*.py`", ["q/o*.py"]),
        ("`Reader.read_all`, `one.Reader`", []),
        ("`Reader.read_none`", ["Reader.read_none"]),
        ("`Writer`", ["Writer"]),
        ("`Writer.write`", ["Writer.write"]),
        ("`read_none`", ["read_none"]),
        ("`Reader` (`p/one.py`)", []),
        ("`read_all`\n(`one.py`), `Reader.read_all` (in `one.py`)", []),
        ("`Reader` (`p/two.py`)", ["Reader in p/two.py"]),
        ("`word`, `minCount`, `a = b`, `example.dev/name`", []),
        ("\n```sh\n`gone.py`\n```\n", []),
    ],
)
def test_a_page_has_lost_what_is_not_where_it_says(said: str, lost: list[str]):
    tree = parsed({"p/one.py": "class Reader:\n    def read_all(self): ...", "p/two.py": ""})
    assert list(dangling_in({"page.md": f"See {said}."}, tree)) == [f"page.md: {one}" for one in lost]
