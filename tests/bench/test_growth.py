"""The plot of growth curves is drawn of the figures that are committed beside it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench.drawing import Axis, Curve, Panel, drawn
from bench.growth import DATA, GROWTHS, PLOT, panels

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def test_the_committed_plot_shows_the_committed_figures():
    data = json.loads((ROOT / DATA).read_text())
    assert {name: [int(size) for size in data["curves"][name]] for name in GROWTHS} == {
        name: list(one.sizes) for name, one in GROWTHS.items()
    }
    assert set(data["curves"]) == set(GROWTHS)
    assert (ROOT / PLOT).read_text() == drawn(panels(data))


@pytest.mark.parametrize(
    ("figure", "place"), [(10.0, 0.0), (100.0, 50.0), (1000.0, 100.0)]
)  # fmt: skip
def test_an_axis_is_logarithmic(figure, place):
    assert Axis(10.0, 1000.0, 0.0, 100.0).at(figure) == pytest.approx(place)


def test_ticks_are_round_figures_within():
    assert list(Axis(3.0, 120.0, 0.0, 1.0).ticks()) == [5, 10, 20, 50, 100]


def test_every_point_and_name_is_drawn():
    panel = Panel("a < b", "nodes", "ms", [Curve("one & two", [(1.0, 2.0), (10.0, 3.0)]), Curve("b", [(1.0, 5.0)])])
    root = ET.fromstring(drawn([panel]))
    assert len(list(root.iter(f"{SVG}circle"))) == 3
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert "a < b, ms" in texts
    assert "one & two · b" in texts


def test_panels_are_in_rows():
    panel = Panel("a", "nodes", "ms", [Curve("b", [(1.0, 2.0), (10.0, 3.0)])])
    root = ET.fromstring(drawn([panel] * 3, across=2))
    places = [group.get("transform") for group in root.iter(f"{SVG}g")]
    assert places == ["translate(0 0)", "translate(430 0)", "translate(0 300)"]
    assert (root.get("width"), root.get("height")) == ("860", "600")
