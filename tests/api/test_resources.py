"""Amounts in scheduling units (kube-scheduler 1.36: MilliValue for cpu, Value for the rest)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.api.resources import AmountError, format_amount, from_milli, parse_amounts, parse_requests, to_milli


def test_cpu_counts_in_milli_cores_and_the_rest_in_whole_units():
    given_text = {"cpu": "1500m", "memory": "64Gi", "nvidia.com/gpu": 8, "ephemeral-storage": "1G", "pods": "110"}

    assert parse_amounts(given_text) == {
        "cpu": 1500,
        "memory": 64 * 2**30,
        "nvidia.com/gpu": 8,
        "ephemeral-storage": 10**9,
        "pods": 110,
    }


@pytest.mark.parametrize(
    ("resource", "text", "amount"), [("cpu", "100u", 1), ("memory", "1500m", 2), ("pods", "-1500m", -2)]
)
def test_fractions_round_away_from_zero(resource, text, amount):
    assert parse_amounts({resource: text}) == {resource: amount}


def test_amounts_fit_int64_columns():
    assert parse_amounts({"cpu": "1e30", "memory": "1e30"}) == {"cpu": 2**63 - 1, "memory": 2**63 - 1}


def test_an_error_names_the_resource_and_the_text():
    with pytest.raises(AmountError, match=r"^nvidia.com/gpu: 'eight' is not a quantity"):
        parse_amounts({"cpu": 1, "nvidia.com/gpu": "eight"})


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 64 * 2**30, "64Gi"),
        ("memory", 1_500_000_000, "1500M"),
        ("memory", 0, "0"),
        ("hugepages-2Mi", 4 * 2**20, "4Mi"),
        ("nvidia.com/gpu", 8, "8"),
        ("nvidia.com/gpu", 2048, "2048"),
        ("pods", 110, "110"),
    ],
)
def test_amounts_read_as_a_person_writes_them(resource, amount, text):
    assert format_amount(resource, amount) == text


@given(st.sampled_from(["cpu", "memory", "pods"]), st.integers(min_value=-(10**15), max_value=10**15))
def test_description_and_milli_units_are_exact(resource, amount):
    assert from_milli(resource, to_milli(resource, amount)) == amount
    assert parse_amounts({resource: format_amount(resource, amount)}) == {resource: amount}


@pytest.mark.parametrize(
    "name", ["", "a b", "cpu\n", "x\x1b[2J\n[green]", "\u202ecpu", "a/b/c", "A/b", "-", "a" * 318, "a." * 60_000]
)
def test_a_name_that_no_resource_can_have_is_told_in_one_short_line(name):
    # Kubernetes 1.36, pkg/apis/core/validation: validateResourceName
    with pytest.raises(AmountError, match="is no name of a resource") as caught:
        parse_requests({"cpu": 1, name: 1})
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("name", ["cpu", "nvidia.com/gpu", "hugepages-2Mi", "example.com/A_b.c-1", "a" * 63])
def test_names_that_resources_have(name):
    assert parse_requests({name: 1}).keys() == {name}
