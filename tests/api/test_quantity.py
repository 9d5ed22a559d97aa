"""Quantities: grammar, rounding, caps and canonical form (Kubernetes 1.36, apimachinery/pkg/api/resource)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.api import quantity
from tutti_sim.meta.amounts import amount, canonical_amount

LIMIT = quantity.MAX_UNITS * 1000


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("0", 0),
        ("1", 1_000),
        ("+1", 1_000),
        ("-1", -1_000),
        ("100m", 100),
        ("0.1", 100),
        (".5", 500),
        ("5.", 5_000),
        ("1.5Gi", 1_610_612_736_000),
        ("64Gi", 68_719_476_736_000),
        ("1Ki", 1_024_000),
        ("1k", 1_000_000),
        ("1M", 10**9),
        ("1G", 10**12),
        ("1T", 10**15),
        ("1P", 10**18),
        ("1E", 10**21),
        ("1Ei", 2**60 * 1000),
        ("1E3", 1_000_000),
        ("1e3", 1_000_000),
        ("1e-2", 10),
        ("12e+1", 120_000),
        ("2u", 1),
        ("1n", 1),
        ("-1n", -1),
        ("1001u", 2),
        ("0.0001", 1),
        ("0e999999999999", 0),
        ("1e-999999999999", 1),
    ],
)
def test_text_is_read_as_the_documented_grammar_says(text, milli):
    assert quantity.parse_quantity(text) == milli


@pytest.mark.parametrize(
    "text", ["9223372036854775808", "9223372036854775807Ki", "10E", "8Ei", "1e400", "1e99999999999"]
)
def test_an_amount_beyond_int64_is_capped_in_both_directions(text):
    assert quantity.parse_quantity(text) == LIMIT
    assert quantity.parse_quantity(f"-{text}") == -LIMIT


@pytest.mark.parametrize(("number", "milli"), [(2, 2_000), (0.5, 500), (1e-05, 1), (1e22, LIMIT), (-3, -3_000)])
def test_a_bare_number_of_yaml_is_read_like_its_text(number, milli):
    assert quantity.parse_quantity(number) == milli


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", ".", "+", "-", "m", "Ki", "1 ", " 1", "1 Gi", "1ki", "1KI", "1mi", "1e", "1e1.5", "e3", "1.2.3"),
        *("--1", "0x10", "1_000", "nan", "Infinity", "\u0661", "1" * 257, True, float("nan"), float("inf"), ["1"]),
    ],
)
def test_anything_else_is_an_error_that_names_it_and_shows_what_is_right(value):
    with pytest.raises(quantity.QuantityError) as caught:
        quantity.parse_quantity(value)

    assert repr(value) in str(caught.value) or str(value) in str(caught.value)
    assert "64Gi" in str(caught.value)


@pytest.mark.parametrize(
    ("milli", "decimal", "binary"),
    [
        (0, "0", "0"),
        (1, "1m", "1m"),
        (1_500, "1500m", "1500m"),
        (2_000, "2", "2"),
        (1_000_000, "1k", "1k"),
        (1_024_000, "1024", "1Ki"),
        (-1_024_000, "-1024", "-1Ki"),
        (1_536 * 2**20 * 1000, "1610612736", "1536Mi"),
        (12 * 10**9, "12M", "12000000"),
        (10**21, "1E", "976562500000000Ki"),
        (1_024_001, "1024001m", "1024001m"),
    ],
)
def test_the_canonical_form_has_no_fraction_and_the_largest_exact_suffix(milli, decimal, binary):
    assert quantity.format(milli, binary=True) == binary
    assert quantity.format(milli) == decimal


TEXTS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.one_of(st.integers(0, 10**9), st.decimals(0, 10**6, places=3)),
    st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E2", "e-1", "e0"]),
)


@given(TEXTS.filter(lambda text: amount(text) * 1000 == int(amount(text) * 1000)))
def test_an_amount_is_written_as_the_api_server_keeps_it(text):
    assert quantity.canonical(text) == canonical_amount(text)


@pytest.mark.parametrize(
    ("written", "kept"),
    [(1, "1"), (0.5, "500m"), ("0.5Gi", "512Mi"), ("1000Ki", "1000Ki"), ("0.5Ki", "512"), ("0Gi", "0")],
)
def test_numbers_and_fractions_are_written_as_the_api_server_keeps_them(written, kept):
    assert quantity.canonical(written) == kept


@given(st.integers(min_value=-LIMIT, max_value=LIMIT), st.booleans())
def test_reading_the_canonical_form_gives_the_amount_back(milli, binary):
    assert quantity.parse_quantity(quantity.format(milli, binary=binary)) == milli
    assert quantity.parse_quantity(quantity.shortest(milli)) == milli


@given(st.integers(min_value=0, max_value=10**9), st.sampled_from(["", "k", "Ki", "M", "Mi", "G", "Gi"]))
def test_order_is_kept(number, suffix):
    assert quantity.parse_quantity(f"{number}{suffix}") <= quantity.parse_quantity(f"{number + 1}{suffix}")
    assert quantity.parse_quantity(f"-{number}{suffix}") == -quantity.parse_quantity(f"{number}{suffix}")
