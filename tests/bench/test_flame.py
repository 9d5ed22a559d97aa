"""The picture of where time goes is as wide as the samples say."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from bench.flame import WIDTH, drawn, gathered

STACKS = """\
run (a.py:1);Runner.run (b.py:2);turn (tutti/engine/c.py:3);deep (tutti/engine/c.py:4) 30
run (a.py:1);Runner.run (b.py:2);turn (tutti/engine/c.py:5) 20
run (a.py:1);Runner.run (b.py:2);send <x> (tutti/kube/d.py:6) 50
run (a.py:1);idle (e.py:7) 900
"""


def test_lines_of_one_function_are_put_together_and_others_than_what_is_asked_for_left_out():
    whole = gathered(STACKS.splitlines(), "Runner.run")
    turn = whole.called["turn (tutti/engine/c.py)"]
    assert (whole.samples, turn.samples, turn.called["deep (tutti/engine/c.py)"].samples) == (100, 50, 30)


def test_boxes_are_as_wide_as_their_share_and_stand_within_their_callers():
    boxes = {}
    for box in ET.fromstring(drawn(gathered(STACKS.splitlines(), "Runner.run"), "a & b")).iter(
        "{http://www.w3.org/2000/svg}rect"
    ):
        for title in box:
            boxes[title.text] = (float(box.get("x")), float(box.get("width")) + 0.5)
    assert boxes["deep (tutti/engine/c.py): 30.0%"] == pytest.approx((WIDTH * 0.5, WIDTH * 0.3))
    assert boxes["turn (tutti/engine/c.py): 50.0%"] == pytest.approx((WIDTH * 0.5, WIDTH * 0.5))
    assert boxes["send <x> (tutti/kube/d.py): 50.0%"] == pytest.approx((0, WIDTH * 0.5))


def test_what_hardly_counts_is_left_out():
    whole = gathered(["a (x.py:1) 1000", "b (x.py:2) 1"])
    assert "b (x.py)" not in drawn(whole, "")
