"""Quantities, selectors, names and times."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_sim.meta import amounts, clock, names, numbers, selectors
from tutti_sim.meta.errors import ApiError


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1000000", "1M"),
        ("2000m", "2"),
        ("1e3", "1e3"),
        ("0", "0"),
        ("512", "512"),
        ("1Ki", "1Ki"),
        ("100n", "100n"),
        ("1.5Gi", "1536Mi"),
    ],
)
def test_quantities_become_canonical(text, canonical):
    assert amounts.canonical_amount(text) == canonical


@given(st.integers(0, 10**15), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi"]))
def test_a_canonical_quantity_is_the_same_amount_and_stays(number, suffix):
    text = f"{number}{suffix}"
    canonical = amounts.canonical_amount(text)

    assert amounts.amount(canonical) == amounts.amount(text)
    assert amounts.canonical_amount(canonical) == canonical


@pytest.mark.parametrize("text", ["", "abc", "1.2.3", "1Qi", "--1", "1 "])
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(ValueError):
        amounts.amount(text)


LABELS = {"app": "x", "tier": "front", "n": "5"}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("app=x", True),
        ("app==x,tier!=back", True),
        ("app in (x, y),!gone", True),
        ("app notin (x)", False),
        ("gone notin (x)", True),
        ("gone!=x", True),
        ("gone", False),
        ("n>4,n<6", True),
        ("n>5", False),
        ("app=", False),
        ("gone=", False),
        ("app in (x,,)", True),
        ("app in (,,x,,,y)", True),
    ],
)
def test_label_selectors(selector, matches):
    assert selectors.parse_selector(selector)(LABELS) is matches


NOT_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("a in (", "found '', expected: ',', ')' or identifier"),
        ("a in x", "found 'x' expected: '('"),
        ("a in (x", "found '', expected: ',' or ')'"),
        ("a in (x,", "found '', expected: ',', or identifier"),
        ("a==b==c", "found '==', expected: ',' or 'end of string'"),
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a,", "found '', expected: identifier after ','"),
        ("-a=b", 'Invalid value: "-a": '),
        ("n>x", NOT_INTEGER),
        ("n>1_0", NOT_INTEGER),
        ("n>99999999999999999999", NOT_INTEGER),
        ("n<-9223372036854775809", NOT_INTEGER),
        ("a=\xa0x", 'values[0][a]: Invalid value: "\xa0x"'),
        ("a=x\x0b", 'values[0][a]: Invalid value: "x\x0b"'),
        ("a=x\x0cy", 'values[0][a]: Invalid value: "x\x0cy"'),
        ("a=x\u2003", 'values[0][a]: Invalid value: "x\u2003"'),
        ("\xa0", 'Invalid value: "\xa0": '),
        ("a" + " " * 100_000 + "\x0b", "found '\x0b', expected: in, notin"),
    ],
)
def test_malformed_label_selectors_are_refused(selector, message):
    with pytest.raises(ApiError, match=re.escape(message)):
        selectors.parse_selector(selector)


def test_blanks_around_and_within_a_selector_say_nothing():
    assert selectors.parse_selector(" \t\r\n") is None
    assert selectors.parse_selector("\r\n app\t in\n( x ,\ty ) ,\t! gone ")(LABELS)


@pytest.mark.parametrize("label", ["1_0", "99999999999999999999", "\xb2", ""])
def test_a_label_that_is_no_number_is_neither_more_nor_less(label):
    assert not selectors.parse_selector("n>1")({"n": label})
    assert not selectors.parse_selector("n<1")({"n": label})


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("-0", 0), ("+5", 5), ("0" * 500 + "7", 7), ("-9223372036854775808", -(2**63))]
)
def test_numbers_as_go_reads_them(text, number):
    assert numbers.integer(text) == number


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "invalid syntax"),
        ("1_0", "invalid syntax"),
        (" 1", "invalid syntax"),
        ("\xb2", "invalid syntax"),
        ("\u0663", "invalid syntax"),
        ("1\n", "invalid syntax"),
        ("+-1", "invalid syntax"),
        ("9223372036854775808", "value out of range"),
        ("9" * 5000, "value out of range"),
    ],
)
def test_what_is_no_number_is_refused_in_go_s_words(text, fault):
    with pytest.raises(ValueError, match=rf"(?s)strconv\.ParseInt: .*: {fault}"):
        numbers.integer(text)


def test_numbers_without_a_sign():
    assert numbers.unsigned("18446744073709551615") == 2**64 - 1
    with pytest.raises(ValueError, match="value out of range"):
        numbers.unsigned("18446744073709551616")
    with pytest.raises(ValueError, match=r"strconv\.ParseUint.*invalid syntax"):
        numbers.unsigned("+1")


def test_an_absent_selector_selects_nothing_and_an_empty_one_everything():
    assert not selectors.from_object(None)({})
    assert selectors.from_object({})({})


def test_field_selectors_tell_unknown_fields_apart():
    with pytest.raises(ApiError, match=r"field label not supported: spec\.x"):
        selectors.compile_terms(selectors.terms("spec.x=1"), selectors.METADATA, plain=False)
    with pytest.raises(ApiError, match="can't understand 'nonsense'"):
        selectors.terms("nonsense")


def test_a_field_selector_that_ends_within_an_escape_is_refused():
    assert selectors.terms("a=b\\\\") == [("a", "=", "b\\")]
    with pytest.raises(ApiError, match=r"invalid field selector: invalid escape sequence: \\$"):
        selectors.terms("a=b\\")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (119, "119s"),
        (125, "2m5s"),
        (600, "10m"),
        (10800, "3h"),
        (11100, "3h5m"),
        (86400 * 3, "3d"),
        (86400 * 900, "2y"),
    ],
)
def test_ages_are_short(seconds, shown):
    assert clock.span(seconds) == shown


def test_times_are_kept_in_utc_and_whole_seconds():
    assert clock.canonical("2024-01-02T03:04:05.9+01:00") == "2024-01-02T02:04:05Z"
    with pytest.raises(ValueError):
        clock.canonical("yesterday")


@pytest.mark.parametrize("name", ["a", "a-b.c", "0"])
def test_names_that_are_subdomains(name):
    assert names.subdomain(name) == ""


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a..b", "a" * 254])
def test_names_that_are_not(name):
    assert names.subdomain(name)
