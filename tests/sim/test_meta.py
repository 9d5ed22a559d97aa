"""Quantities, selectors, names and times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_sim.meta import amounts, clock, names, selectors
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
    ],
)
def test_label_selectors(selector, matches):
    assert selectors.parse_selector(selector)(LABELS) is matches


@pytest.mark.parametrize("selector", ["a in (", "a in x", "a==b==c", "=x", "a b", "-a=b", "n>x"])
def test_malformed_label_selectors_are_refused(selector):
    with pytest.raises(ApiError, match=r"unable to parse requirement|expected"):
        selectors.parse_selector(selector)


def test_an_absent_selector_selects_nothing_and_an_empty_one_everything():
    assert not selectors.from_object(None)({})
    assert selectors.from_object({})({})


def test_field_selectors_tell_unknown_fields_apart():
    with pytest.raises(ApiError, match=r"field label not supported: spec\.x"):
        selectors.compile_terms(selectors.terms("spec.x=1"), selectors.METADATA, plain=False)
    with pytest.raises(ApiError, match="can't understand 'nonsense'"):
        selectors.terms("nonsense")


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
