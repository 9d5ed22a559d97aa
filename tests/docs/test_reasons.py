"""Every reason that the code can give is on the page of reasons, with what it means and what helps, and no other is."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from handbook import reasons
from handbook.said import ROOT, Example, chosen, examples
from tutti.engine.records.explanation import Gate

page = cache(reasons.page)  # not by every process that collects these tests


def test_every_reason_of_every_gate_has_a_line_that_says_what_helps() -> None:
    rows = re.findall(r"^\| (\w+) \| `(\w+)` \| (.+?) \| (.+?) \|$", page(), re.MULTILINE)
    assert {gate for gate, *_ in rows} == {gate.value for gate in Gate}
    assert {(gate, reason) for gate, reason, *_ in rows} == reasons.waiting()
    assert len(rows) > 80
    assert [(gate, reason) for gate, reason, means, helps in rows if len(helps) < len("time") or helps == means] == []


def test_every_reason_has_an_example_that_an_engine_says_in_a_test_that_there_is() -> None:
    """Whether it still says so, that test looks itself (`tests/engine/conftest.py`)."""
    shown = examples()
    assert shown.keys() == reasons.waiting()
    for one in shown.values():
        file, _, name = one.test.partition("::")
        assert re.search(rf"def {re.escape(name.partition('[')[0])}\(", (ROOT / file).read_text()), one.test
        assert f"`{one.message.replace('`', chr(39))}`" in page()


def test_of_several_messages_one_that_is_quick_to_read_is_chosen_always_the_same() -> None:
    made = [
        (("Quota", "WaitingForQuota"), Example(text, "tests/a.py::test_a"))
        for text in ("x", "y" * 101, "w" * 99, "z" * 400, "2 node(s) " + "v" * 90)
    ]
    assert chosen(made) == chosen(reversed(made)) == {made[2][0]: made[2][1]}


def test_reasons_are_found_where_they_stand_as_text_as_a_constant_or_under_a_name() -> None:
    said = reasons.waiting()
    assert {("Gather", "GangFull"), ("Queue", "WaitingForWorkloads"), ("Quota", "WaitingForQuota")} <= said
    assert {"FlavorNotFound", "Stopped", "NotServed", "CohortRing"} <= reasons.inactive()
    assert "Ready" not in reasons.inactive()


def test_one_that_is_not_described_and_one_that_nothing_says_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    texts = tmp_path / "reasons.yaml"
    texts.write_text(reasons.TEXTS.read_text().replace("  GangFull:", "  GangEmpty:"))
    monkeypatch.setattr(reasons, "TEXTS", texts)
    with pytest.raises(ValueError, match=r"GangFull.*that it does not describe.*GangEmpty"):
        reasons.page()
