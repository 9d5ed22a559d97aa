"""The part of PromQL that dashboard and alerts are written in, against what Prometheus' documentation says of it."""

from __future__ import annotations

import math

import pytest

from handbook.promql.evaluating import History
from handbook.promql.parsing import Binary, NotUnderstood, parse

SCRAPES = (
    (0, 'c_total{q="a"} 0\nc_total{q="b"} 5\ng{q="a",f="x"} 1\ng{q="a",f="y"} 2\ng{q="b",f="x"} 4\nn{q="a"} 2\n'),
    (60, 'c_total{q="a"} 30\nc_total{q="b"} 5\ng{q="a",f="x"} 1\ng{q="a",f="y"} 2\ng{q="b",f="x"} 4\nn{q="a"} 2\n'),
    (120, 'c_total{q="a"} 6\nc_total{q="b"} 65\ng{q="a",f="x"} 3\ng{q="a",f="y"} 2\ng{q="b",f="x"} 8\nn{q="a"} 2\n'),
)
TYPES = "# TYPE c counter\n# TYPE h histogram\n"
# Of 100 values 50 are below 1 and 90 below 2.
HISTOGRAM = 'h_bucket{le="1.0"} 50\nh_bucket{le="2.0"} 90\nh_bucket{le="+Inf"} 100\nh_count 100\nh_sum 120\n'


@pytest.fixture(scope="module")
def history():
    found = History()
    for at, text in SCRAPES:
        found.add(1000 + at, TYPES + text + HISTOGRAM)
    return found


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ('g{q="b"}', {("b", "x"): 8}),
        ('sum by (q) (g{f=~"x|z"})', {("a",): 3, ("b",): 8}),
        ('sum(g{q!="a"})', {(): 8}),
        ("max(g) - min(g)", {(): 6}),
        ("count(g > 2)", {(): 2}),
        ("sum by (q) (g) / 2", {("a",): 2.5, ("b",): 4}),
        ("10 - sum(g)", {(): -3}),
        ("2 + 3 * 2", {(): 8}),
        ("time() - sum(g)", {(): 1120 - 13}),
        ("increase(c_total[5m])", {("a",): 36, ("b",): 60}),  # a began anew at 6
        ("rate(c_total[2m])", {("b",): 0.5, ("a",): 6 / 120}),
        ("absent(nothing)", {(): 1}),
        ("absent(g)", {}),
        ("sum by (q) (g) unless on (q) n", {("b",): 8}),
        ("sum by (q) (g) > 4 and on (q) n", {("a",): 5}),
        ("n or sum by (q) (g)", {("a",): 2, ("b",): 8}),
        ("sum by (q) (g) / sum by (q) (n)", {("a",): 2.5}),
        ("histogram_quantile(0.5, sum by (le) (h_bucket))", {(): 1}),
        ("histogram_quantile(0.7, h_bucket)", {(): 1.5}),
        ("histogram_quantile(0.99, h_bucket)", {(): 2}),
    ],
)
def test_expressions_have_the_value_that_prometheus_gives(history, expression, wanted):
    found = history.evaluate(parse(expression), 1120)

    assert {tuple(v for _, v in sorted(labels, reverse=True)): value for labels, value in found.items()} == wanted


def test_a_series_that_was_not_scraped_any_more_has_ended(history):
    later = History()
    later.add(1.0, "g 1\n")
    later.add(2.0, "other 1\n")

    assert later.evaluate(parse("g"), 2.0) == {}
    assert later.evaluate(parse("g"), 1.5) == {frozenset(): 1}


def test_nothing_divided_by_nothing_is_no_number(history):
    ((_, value),) = history.evaluate(parse("sum(g) / (sum(g) - sum(g))"), 1120).items()

    assert math.isnan(value)


def test_what_binds_closer_is_read_first():
    found = parse("a > 0 unless on (q) b > 0")

    assert isinstance(found, Binary)
    assert (found.sign, found.left.sign, found.right.sign, found.on) == ("unless", ">", ">", ("q",))


@pytest.mark.parametrize("text", ["sum(", "g{q=1}", "sum by q (g)", "g g", "nothing_known(g)", "g[5]", "g{} $", "+ 1"])
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(NotUnderstood):
        parse(text)
