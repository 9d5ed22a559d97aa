"""How likely a node is to have too little, by how much its load varies and by what its pods may use beyond requests.

Sources, as facts: scheduler-plugins pkg/trimaran, loadvariationriskbalancing (analysis.go) and lowriskovercommitment
(lowriskovercommitment.go, beta.go). All of it is arithmetic over arrays of equal shape.
"""

from __future__ import annotations

from math import lgamma
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_OF_VARIANCE: Final = 0.99
"""How much of the largest variance that a mean allows a Beta distribution may be fitted to."""

_STEPS: Final = 300
_TINY: Final = 1e-300
_EXACT: Final = 1e-14

_lgamma = np.frompyfunc(lgamma, 1, 1)


class MeasuredAmounts(NamedTuple):
    """One resource of nodes: float64 arrays of equal shape, in its unit.

    Attributes:
        capacity: What there is.
        request: What the pod asks for that is being placed.
        used, deviation: What was measured, and by how much it varied.
    """

    capacity: Floats
    request: Floats
    used: Floats
    deviation: Floats


def mean_and_deviation(load: MeasuredAmounts) -> tuple[Floats, Floats]:
    """Return how much of each node would be used and by how much that varies, both as parts of it within 0..1."""
    there = load.capacity > 0
    capacity = np.where(there, load.capacity, 1.0)
    used = np.clip(load.used, 0, load.capacity)
    deviation = np.clip(load.deviation, 0, load.capacity)
    mean = np.clip((used + load.request) / capacity, 0, 1)
    return np.where(there, mean, 0.0), np.where(there, np.clip(deviation / capacity, 0, 1), 0.0)


def variation_score(load: MeasuredAmounts, margin: float, sensitivity: float) -> Floats:
    """Return 0..100: better where little is used and that varies little (LoadVariationRiskBalancing)."""
    mean, deviation = mean_and_deviation(load)
    margin = margin if margin >= 0 else 1.0
    if sensitivity > 0:
        deviation = deviation ** (1 / sensitivity)
    elif sensitivity == 0:  # the root of degree 0: all that varies by less than the whole counts as steady
        deviation = np.where(deviation < 1, 0.0, 1.0)
    varied = np.clip(deviation * margin, 0, 1)
    return np.where(load.capacity > 0, (1 - (mean + varied) / 2) * 100, 0.0)


class Commitment(NamedTuple):
    """What the pods of nodes ask for and may use of one resource: float64 arrays of equal shape.

    Attributes:
        capacity: What a node offers.
        request, limit: Of all its pods, with the one that is being placed.
        request_before, limit_before: Without it.
    """

    capacity: Floats
    request: Floats
    limit: Floats
    request_before: Floats
    limit_before: Floats


def limit_risk(of: Commitment) -> Floats:
    """Return 0..1: how much of what pods may use beyond their requests is not there."""
    request = np.minimum(of.request, of.capacity)
    above, room = of.limit - of.capacity, of.limit - request
    return np.where(above > 0, above / np.where(room > 0, room, 1.0), 0.0)


def load_risk(of: Commitment, used: Floats, deviation: Floats, window: int) -> Floats:
    """Return 0..1: how likely more is used than was asked for, by a Beta distribution of the load measured.

    Args:
        of: What was asked for.
        used: What was measured, in the unit of the resource.
        deviation: By how much that varied.
        window: Over how many measurements the deviation is taken to have been smoothed.
    """
    there = of.capacity > 0
    capacity = np.where(there, of.capacity, 1.0)
    mean = np.clip(np.where(there, used / capacity, 0.0), 0, 1)
    most = mean * (1 - mean)
    spread = np.clip(np.where(there, deviation / capacity, 0.0), 0, 1) * np.sqrt(window)
    spread = np.minimum(spread, np.sqrt(most * MOST_OF_VARIANCE))
    request = np.minimum(of.request_before, of.capacity)
    threshold = np.where(there, request / capacity, 0.0)
    alpha, beta, fits = fitted(mean, mean**2 + spread**2)
    within = np.where((mean == 0) | (mean <= threshold), 1.0, 0.0)
    fitting = (mean > 0) & (spread > 0) & fits
    within = np.where(fitting, probability(alpha, beta, threshold), within)
    limited = (of.limit_before < of.capacity) & (request <= of.limit_before)
    up_to = probability(alpha, beta, np.where(there, of.limit_before / capacity, 0.0))
    truncated = np.clip(np.where(up_to > 0, within / np.where(up_to > 0, up_to, 1.0), within), 0, 1)
    within = np.where(limited & fitting & (up_to > 0), truncated, within)
    within = np.where(limited & (of.limit_before == 0), 1.0, within)
    return 1 - within


def overcommit_risk(of: Commitment, used: Floats, deviation: Floats, window: int, weight: float) -> Floats:
    """Return 0..1: both risks, that of limits by its weight (LowRiskOverCommitment); NaN in `used`: not measured."""
    known = ~np.isnan(used)
    by_load = np.where(known, load_risk(of, np.nan_to_num(used), np.nan_to_num(deviation), window), 0.0)
    return np.clip(weight * limit_risk(of) + (1 - weight) * by_load, 0, 1)


def most_variance(mean: Floats) -> Floats:
    """Return float64[rows]: the largest variance of numbers within 0..1 that have these means; 0 where there are none.

    Half are then 0 and half are 1, as near as the mean lets them be (Bhatia and Davis 2000).
    """
    return np.where((mean < 0) | (mean > 1), 0.0, mean * (1 - mean))


def fitted(first: Floats, second: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return alpha and beta of the Beta distributions that have these moments, and where there is one at all."""
    variance = second - first**2
    fits = (first > 0) & (first < 1) & (variance > 0) & (variance < most_variance(first))
    ratio = np.where(fits, most_variance(first) / np.where(fits, variance, 1.0) - 1, 0.0)
    alpha, beta = first * ratio, (1 - first) * ratio
    return np.where(fits, alpha, 1.0), np.where(fits, beta, 1.0), fits


def probability(alpha: Floats, beta: Floats, x: Floats) -> Floats:
    """Return how likely numbers of Beta distributions are at most `x`: the regularised incomplete beta function.

    0 where there is no such distribution.

    By the continued fraction of the Digital Library of Mathematical Functions, 8.17.22, evaluated after Lentz. The one
    function would be all that a library for it is needed for, at a third of the size of the whole image.
    """
    alpha, beta, x = np.broadcast_arrays(alpha, beta, np.clip(x, 0, 1))
    there = (alpha > 0) & (beta > 0)
    inside = there & (x > 0) & (x < 1)
    at = np.where(inside, x, 0.5)
    flipped = at > (alpha + 1) / (alpha + beta + 2)
    a, b = np.where(flipped, beta, alpha), np.where(flipped, alpha, beta)
    a, b = np.where(inside, a, 1.0), np.where(inside, b, 1.0)
    at = np.where(flipped, 1 - at, at)
    logs = _lgamma(a + b) - _lgamma(a) - _lgamma(b)
    front = np.exp(logs.astype(np.float64) + a * np.log(at) + b * np.log1p(-at)) / a
    found = np.clip(front * _fraction(a, b, at), 0, 1)
    return np.where(inside, np.where(flipped, 1 - found, found), (there & (x >= 1)).astype(np.float64))


def _fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    c = np.ones_like(x)
    d = _inverse(1 - (a + b) * x / (a + 1))
    value = d.copy()
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = np.ones_like(x)
        for term in (even, odd):
            d = _inverse(1 + term * d)
            c = 1 + term / _nonzero(c)
            change = c * d
            value *= change
        if np.abs(change - 1).max(initial=0.0) < _EXACT:
            break
    return value


def _inverse(value: Floats) -> Floats:
    return 1 / _nonzero(value)


def _nonzero(value: Floats) -> Floats:
    return np.where(np.abs(value) < _TINY, _TINY, value)
