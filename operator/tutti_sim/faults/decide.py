"""What goes wrong with a request: a pure function of the rules, the request, and how often each rule was asked.

A rule rolls its own dice, from the seed, its name and how many matching requests it has seen; so it strikes the same
ones of them whatever other rules there are, and whatever other requests come in between.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tutti_sim.faults.rules import Faults, Match, Refusal, Rule, WatchFault
from tutti_sim.hollow.fate import duration


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as rules see it. `resource` has the subresource with it: pods/binding."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many requests a rule has matched, and how many of them it struck."""

    seen: int = 0
    struck: int = 0

    def after(self, *, struck: bool) -> Tally:
        """The tally with one request more."""
        return Tally(self.seen + 1, self.struck + struck)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is done to a request.

    Attributes:
        reset: `before` or `after` its effect, or empty.
        watch: the faults of a watch, each with the seed of its dice.
        matched: the rules that are about it, and whether each struck.
    """

    latency: float = 0.0
    skew: int = 0
    refusal: Refusal | None = None
    reset: str = ""
    watch: tuple[tuple[str, WatchFault], ...] = ()
    matched: tuple[tuple[str, bool], ...] = ()


NOTHING = Tally()


def matches(match: Match, asked: Asked) -> bool:
    """Whether a rule is about a request."""
    return (
        (not match.verbs or asked.verb in match.verbs)
        and (not match.groups or asked.group in match.groups)
        and _any(match.resources, asked.resource)
        and _any(match.namespaces, asked.namespace)
        and _any(match.names, asked.name)
        and _any(match.agents, asked.agent)
    )


def _any(patterns: list[str], value: str) -> bool:
    return not patterns or any(fnmatchcase(value, pattern) for pattern in patterns)


def in_time(rule: Rule, elapsed: float) -> bool:
    """Whether a rule holds so many seconds after the rules were given."""
    return elapsed >= rule.from_seconds and (rule.until_seconds is None or elapsed < rule.until_seconds)


def strikes(rule: Rule, tally: Tally, *, seed: int) -> bool:
    """Whether a rule strikes the next request that it matches."""
    if tally.seen < rule.skip or (rule.times is not None and tally.struck >= rule.times):
        return False
    return _dice(seed, rule, tally, "strike").random() < rule.rate


def _dice(seed: int, rule: Rule, tally: Tally, question: str) -> random.Random:
    return random.Random(f"{seed}/{rule.name}/{tally.seen}/{question}")  # noqa: S311 - meant to be told beforehand


def decide(faults: Faults, asked: Asked, tallies: Mapping[str, Tally], *, elapsed: float) -> Verdict:
    """What is done to a request; latencies and skews add up, of refusals and resets the first rule's counts."""
    latency, skew, refusal, reset = 0.0, 0, None, ""
    watch: list[tuple[str, WatchFault]] = []
    matched: list[tuple[str, bool]] = []
    for rule in faults.rules:
        if not in_time(rule, elapsed) or not matches(rule.match, asked):
            continue
        tally = tallies.get(rule.name, NOTHING)
        struck = strikes(rule, tally, seed=faults.seed)
        matched.append((rule.name, struck))
        if not struck:
            continue
        if rule.latency is not None:
            latency += duration(rule.latency, _dice(faults.seed, rule, tally, "latency"))
        skew += rule.skew_seconds or 0
        refusal = refusal or rule.error
        reset = reset or rule.reset or ""
        if rule.watch is not None and asked.verb == "watch":
            watch.append((f"{faults.seed}/{rule.name}/{tally.seen}/watch", rule.watch))
    return Verdict(latency, skew, refusal, reset, tuple(watch), tuple(matched))
