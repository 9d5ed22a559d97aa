"""Evaluates an expression at a moment over what was scraped before, as Prometheus (3) does.

Of what Prometheus adds, a rate is not stretched to the ends of its window: scrapes here are close together.
"""

from __future__ import annotations

import math
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import pairwise

from prometheus_client.parser import text_string_to_metric_families

from handbook.promql.parsing import Aggregation, Binary, Call, Expression, Number, Selector

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
"""A value per series; that of a constant has no labels."""

STALE_SECONDS = 300
"""How long the last value of a series stands."""

_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left / right if right else math.nan,
}
_COMPARING: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TOGETHER: Mapping[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "avg": lambda values: sum(values) / len(values),
    "count": lambda values: float(len(values)),
}


class History:
    """What was scraped, by the name of the series, its labels and time."""

    def __init__(self) -> None:
        self._series: dict[str, dict[Labels, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
        self._scraped: list[float] = []

    @property
    def times(self) -> list[float]:
        """When something was scraped, Unix seconds."""
        return self._scraped

    def add(self, at: float, text: str, **labels: str) -> None:
        """Take in one scrape; `labels` are those of the target. A series that is not in it has ended."""
        self._scraped.append(at)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = frozenset({**sample.labels, **labels}.items())
                self._series[sample.name][key].append((at, sample.value))

    def select(self, selector: Selector, at: float) -> dict[Labels, list[tuple[float, float]]]:
        """Return the samples of each series selected: those of its range, or the last one."""
        since = at - (selector.over or STALE_SECONDS)
        newest = max((one for one in self._scraped if one <= at), default=at)
        found = {}
        for labels, samples in self._series.get(selector.name, {}).items():
            recent = [one for one in samples if since < one[0] <= at]
            if recent and _matches(dict(labels), selector) and (selector.over or recent[-1][0] == newest):
                found[labels] = recent if selector.over else recent[-1:]
        return found

    def evaluate(self, expression: Expression, at: float) -> Vector:
        """Return the value of an expression at a time."""
        match expression:
            case Number(value):
                return {frozenset(): value}
            case Selector():
                return {labels: samples[-1][1] for labels, samples in self.select(expression, at).items()}
            case Aggregation(how, by, of):
                groups: dict[Labels, list[float]] = defaultdict(list)
                for labels, value in self.evaluate(of, at).items():
                    groups[_only(labels, by)].append(value)
                return {labels: _TOGETHER[how](values) for labels, values in groups.items()}
            case Call():
                return self._call(expression, at)
            case Binary():
                return self._binary(expression, at)

    def _call(self, call: Call, at: float) -> Vector:
        match call.function, call.arguments:
            case "time", ():
                return {frozenset(): at}
            case "absent", (of,):
                return {} if self.evaluate(of, at) else {frozenset(): 1.0}
            case (("rate" | "increase"), (Selector() as of,)):
                per = of.over if call.function == "rate" else 1
                series = self.select(of, at)
                return {labels: _increase(samples) / per for labels, samples in series.items() if len(samples) > 1}
            case "histogram_quantile", (Number(quantile), of):
                return _quantiles(quantile, self.evaluate(of, at))
        raise ValueError(f"{call.function} of {len(call.arguments)} arguments")

    def _binary(self, binary: Binary, at: float) -> Vector:
        left, right = self.evaluate(binary.left, at), self.evaluate(binary.right, at)
        constant = isinstance(binary.right, Number), isinstance(binary.left, Number)

        def key(labels: Labels) -> Labels:
            return labels if binary.on is None else _only(labels, binary.on)

        others = {key(labels): value for labels, value in right.items()}
        match binary.sign:
            case "and":
                return {labels: value for labels, value in left.items() if key(labels) in others}
            case "unless":
                return {labels: value for labels, value in left.items() if key(labels) not in others}
            case "or":
                mine = {key(labels) for labels in left}
                return left | {labels: value for labels, value in right.items() if key(labels) not in mine}
        if any(constant) or call_of_time(binary.left):
            return _with_constant(binary.sign, left, right)
        pairs = {labels: (value, others[key(labels)]) for labels, value in left.items() if key(labels) in others}
        if binary.sign in _ARITHMETIC:
            return {labels: _ARITHMETIC[binary.sign](*pair) for labels, pair in pairs.items()}
        return {labels: pair[0] for labels, pair in pairs.items() if _COMPARING[binary.sign](*pair)}


def call_of_time(expression: Expression) -> bool:
    """Whether an expression is the time, which is a constant at any moment."""
    return isinstance(expression, Call) and expression.function == "time"


def _with_constant(sign: str, left: Vector, right: Vector) -> Vector:
    """Put each series and one constant together; a comparison keeps the series for which it holds."""
    if left.keys() == {frozenset()} and right.keys() != {frozenset()}:
        pairs = {labels: (left[frozenset()], value) for labels, value in right.items()}
        kept = right
    else:
        pairs = {labels: (value, right[frozenset()]) for labels, value in left.items()}
        kept = left
    if sign in _ARITHMETIC:
        return {labels: _ARITHMETIC[sign](*pair) for labels, pair in pairs.items()}
    return {labels: kept[labels] for labels, pair in pairs.items() if _COMPARING[sign](*pair)}


def _only(labels: Labels, names: tuple[str, ...]) -> Labels:
    return frozenset((name, value) for name, value in labels if name in names)


def _matches(labels: dict[str, str], selector: Selector) -> bool:
    for label, sign, wanted in selector.matchers:
        value = labels.get(label, "")
        same = bool(re.fullmatch(wanted, value)) if "~" in sign else value == wanted
        if same is sign.startswith("!"):
            return False
    return True


def _increase(samples: list[tuple[float, float]]) -> float:
    """Return by how much a counter has grown; one that is less than before has begun anew."""
    values = [value for _, value in samples]
    return sum(after - before if after >= before else after for before, after in pairwise(values))


def _quantiles(quantile: float, buckets: Vector) -> Vector:
    """Return a quantile per histogram: within its bucket, values are taken to lie evenly."""
    histograms: dict[Labels, list[tuple[float, float]]] = defaultdict(list)
    for labels, count in buckets.items():
        bound = float(dict(labels)["le"])
        histograms[frozenset(one for one in labels if one[0] != "le")].append((bound, count))
    return {labels: _quantile(quantile, sorted(found)) for labels, found in histograms.items()}


def _quantile(quantile: float, buckets: list[tuple[float, float]]) -> float:
    total = buckets[-1][1]
    if not total:
        return math.nan
    rank, below, start = quantile * total, 0.0, 0.0
    for bound, count in buckets:
        if count >= rank:
            if math.isinf(bound):
                return start
            return start + (bound - start) * (rank - below) / (count - below if count > below else 1)
        below, start = count, bound
    return start
