"""What is drawn has the points that it was given, in as few of them as say the same, and can be read as SVG."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_simulate.plots import BOTTOM, HEIGHT, TOP, Bars, Line, Plot, drawn, drawn_bars

NAMES = "{http://www.w3.org/2000/svg}"


def corners(text: str) -> list[tuple[float, float]]:
    line = ET.fromstring(text).find(f"{NAMES}polyline")
    assert line is not None
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+),([\d.]+)", line.get("points", ""))]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=30))
def test_what_stays_until_the_next_point_is_drawn_level_and_upright(rows):
    points = [(float(x), float(y)) for x, y in sorted(rows, key=lambda row: row[0])]
    found = corners(drawn(Plot("t", "x", "y", [Line("a", points, steps=True)], seconds=False)))
    assert all(one[0] == other[0] or one[1] == other[1] for one, other in pairwise(found))


def test_points_on_the_way_are_left_out():
    level = [(float(x), 5.0 if x < 50 else 7.0) for x in range(100)]
    assert len(corners(drawn(Plot("t", "x", "y", [Line("a", level, steps=True)], seconds=False)))) == 4


@pytest.mark.parametrize("name", ["plain", "<b>&\"'"])
def test_bars_are_as_high_as_their_numbers_whatever_their_names(name: str):
    root = ET.fromstring(drawn_bars(Bars(name, "y", [name, "other"], {name: [1.0, 0.5]})))
    bars = [one for one in root.iter(f"{NAMES}rect") if one.get("fill") != "white"]
    assert [float(one.get("height", "")) for one in bars] == [HEIGHT - BOTTOM - TOP, (HEIGHT - BOTTOM - TOP) / 2]
    assert name in str(root[0].text)


def test_nothing_at_all_can_be_drawn():
    assert ET.fromstring(drawn_bars(Bars("t", "y", [], {}))).tag == f"{NAMES}svg"
    assert ET.fromstring(drawn(Plot("t", "x", "y", [Line("a", [])]))).tag == f"{NAMES}svg"
