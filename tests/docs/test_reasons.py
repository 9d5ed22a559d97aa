"""Every reason that the code can give is on the page of reasons, with what it means and what helps, and no other is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from handbook import reasons
from tutti.engine.records.explanation import Gate

ROWS = re.findall(r"^\| (\w+) \| `(\w+)` \| (.+?) \| (.+?) \|$", reasons.page(), re.MULTILINE)


def test_every_reason_of_every_gate_has_a_line_that_says_what_helps() -> None:
    assert {gate for gate, *_ in ROWS} == {gate.value for gate in Gate}
    assert {(gate, reason) for gate, reason, *_ in ROWS} == reasons.waiting()
    assert len(ROWS) > 80


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
