"""Percentages: what is one, and what part of an amount it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.api.quantity import Percentage, parse_percentage


@pytest.mark.parametrize(
    ("text", "of_a_thousand"), [("80%", 800), ("0%", 0), ("100%", 1000), ("12.5%", 125), ("33.33%", 333), ("5%", 50)]
)
def test_part_of_an_amount(text, of_a_thousand):
    assert parse_percentage(text).of(1000) == of_a_thousand


@pytest.mark.parametrize("text", ["101%", "100.5%", "-1%", "%", "8 %", "1.234%", "eighty%", "80", "\uff11%"])
def test_what_is_no_percentage_is_refused_with_what_would_be_one(text):
    with pytest.raises(ValueError, match="such as 80%"):
        parse_percentage(text)


@given(st.integers(0, 10_000))
def test_written_out_it_reads_the_same(hundredths):
    assert parse_percentage(str(Percentage(hundredths))) == Percentage(hundredths)
