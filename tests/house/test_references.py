"""Docstrings name modules and constants that exist: whoever follows one finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.references import dangling
from tests.house.source import loaded, parsed

pytestmark = pytest.mark.xdist_group("house")  # the source is read once for all of them

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "tutti/api/model.py: use_attribute_docstrings",  # pydantic's
}


def test_what_docstrings_of_the_operator_name_is_there():
    lost = {one for one in dangling(loaded(ROOT / "operator")) if not (ROOT / one.partition(": ")[2]).is_file()}
    assert lost == ELSEWHERE


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
