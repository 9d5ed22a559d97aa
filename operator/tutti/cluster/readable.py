"""Amounts as far as they can be read: one quantity that is none must not hide the others."""

from __future__ import annotations

from collections.abc import Mapping

from tutti.api.core import Pod
from tutti.api.resources import AmountError, Amounts, parse_requests
from tutti.cluster.classes import PodClass
from tutti.cluster.requests import Scored, occupied, scored_occupied


def readable(quantities: Mapping[str, str | int | float], problems: list[str]) -> Amounts:
    """Return the amounts that can be read; what cannot be is told in `problems`."""
    out: Amounts = {}
    for name, quantity in quantities.items():
        try:
            out |= parse_requests({name: quantity})
        except AmountError as error:
            problems.append(str(error))
    return out


def readable_occupied(pod: Pod, klass: PodClass) -> tuple[Amounts, Scored]:
    """Return what an assigned pod holds, and what it weighs in scores; its spec's where its status cannot be read."""
    requests = klass.requests
    try:
        held = occupied(pod, requests)
        if held is requests:
            return requests, klass.weight
        weight = scored_occupied(pod, klass.weight)
    except AmountError:
        return requests, klass.weight
    return (requests, weight) if held == requests else (held, weight)
