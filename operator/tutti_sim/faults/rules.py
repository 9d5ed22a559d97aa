"""Fault rules as a user writes them, what goes wrong with a request by them, and the faults in force.

Rules come in a file or to the admin endpoint. What goes wrong is a pure function of the rules, the request, and how
often each rule was asked: a rule rolls its own dice, from the seed, its name and how many matching requests it has
seen; so it strikes the same ones of them whatever other rules there are.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal, Self

import structlog
from pydantic import Field, model_validator

from tutti.api.model import Model, ShortName
from tutti_sim.hollow.fate import Duration, Probability, duration
from tutti_sim.meta import yamlfile

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


class Match(Model):
    """Which requests a rule is about; what is empty matches everything. Patterns have * and ? as in a shell."""

    verbs: list[Verb] = []
    groups: list[str] = []
    """API groups; `""` is the core group."""
    resources: list[str] = []
    """Plural names, with a subresource where one is meant: pods, pods/binding, pods/*."""
    namespaces: list[str] = []
    names: list[str] = []
    agents: list[str] = []
    """What the client calls itself in its User-Agent."""


class Refusal(Model):
    """An answer other than the one the request deserved."""

    code: Literal[403, 409, 410, 422, 429, 500, 502, 503, 504]
    message: str = ""
    retry_after_seconds: Count | None = None
    """What `Retry-After` says."""
    after: bool = False
    """Whether the request takes effect all the same."""


class WatchFault(Model):
    """What is wrong with a watch. What exists when it opens is sent as it should be."""

    drop_after_events: Count | None = None
    """Break the connection once so many events were sent."""
    drop_after_seconds: Seconds | None = None
    """Break the connection after this time."""
    stall_after_events: Count | None = None
    """Send nothing more after so many events, and keep the connection."""
    duplicate: Probability = 0.0
    """How often an event is sent twice."""
    delay: Duration = "0"
    """How long an event is held back; the order stays."""


class Rule(Model):
    """What goes wrong with which requests, and how often."""

    name: ShortName
    match: Match = Match()
    rate: Probability = 1.0
    """How often it strikes, of the requests that match."""
    skip: Count = 0
    """How many requests that match are spared first."""
    times: Count | None = None
    """How often it strikes at most."""
    from_seconds: Seconds = 0.0
    """When it begins, counted from when the rules were given."""
    until_seconds: Seconds | None = None
    """When it ends."""
    latency: Duration | None = None
    """How long the request waits before anything is done."""
    error: Refusal | None = None
    reset: Literal["before", "after"] | None = None
    """Break the connection without an answer, before or after the request has taken effect."""
    watch: WatchFault | None = None
    skew_seconds: int | None = None
    """How far the server's clock is ahead while it handles the request; behind if negative."""

    @model_validator(mode="after")
    def check_effect(self) -> Self:
        """A rule does something, and begins before it ends."""
        effects = (self.latency, self.error, self.reset, self.watch, self.skew_seconds)
        if all(one is None for one in effects):
            raise ValueError(f"rule {self.name!r} does nothing; give it latency, error, reset, watch or skewSeconds")
        if self.until_seconds is not None and self.until_seconds <= self.from_seconds:
            raise ValueError(f"rule {self.name!r} ends at {self.until_seconds} s, before it begins")
        return self


class Lag(Model):
    """How far the stale listener is behind: by time, by events, or by both."""

    seconds: Seconds = 0.0
    events: Count = 0


class Restart(Model):
    """The server goes away, comes back on the same port, and has forgotten the history of its objects."""

    at: Seconds = 0.0
    """Seconds since the rules were given."""
    down_seconds: Seconds = 0.0


class Faults(Model):
    """Everything that goes wrong."""

    seed: int = 0
    rules: list[Rule] = []
    lag: Lag = Lag()
    restarts: list[Restart] = []
    undiscovered: list[str] = []
    """Kinds, as `<plural>.<group>`, that are served and that discovery does not show, as right after their making."""

    @model_validator(mode="after")
    def check_names(self) -> Self:
        """A rule is known by its name."""
        seen: set[str] = set()
        for rule in self.rules:
            if rule.name in seen:
                raise ValueError(f"two rules are called {rule.name!r}")
            seen.add(rule.name)
        return self

    def with_rule(self, rule: Rule) -> Faults:
        """The same with one rule more, or in place of the one of its name."""
        names = [one.name for one in self.rules]
        rules = [rule if one.name == rule.name else one for one in self.rules]
        return self.model_copy(update={"rules": rules if rule.name in names else [*rules, rule]})

    def without_rule(self, name: str) -> Faults:
        """The same without the rule of that name."""
        return self.model_copy(update={"rules": [one for one in self.rules if one.name != name]})


def load_faults(path: Path) -> Faults:
    """The faults in a file.

    Raises:
        ConfigurationError: The file is not as it should be; the error says where, and what would be right.
    """
    return yamlfile.read_yaml(path.read_text(encoding="utf-8"), Faults, str(path))


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
class FaultCounts:
    """How many requests a rule has matched, and how many of them it struck."""

    seen: int = 0
    struck: int = 0

    def after(self, *, struck: bool) -> FaultCounts:
        """The tally with one request more."""
        return FaultCounts(self.seen + 1, self.struck + struck)


@dataclass(frozen=True, slots=True)
class FaultVerdict:
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


NOTHING = FaultCounts()


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


def strikes(rule: Rule, tally: FaultCounts, *, seed: int) -> bool:
    """Whether a rule strikes the next request that it matches."""
    if tally.seen < rule.skip or (rule.times is not None and tally.struck >= rule.times):
        return False
    return _dice(seed, rule, tally, "strike").random() < rule.rate


def _dice(seed: int, rule: Rule, tally: FaultCounts, question: str) -> random.Random:
    return random.Random(f"{seed}/{rule.name}/{tally.seen}/{question}")  # noqa: S311 - meant to be told beforehand


def decide(faults: Faults, asked: Asked, tallies: Mapping[str, FaultCounts], *, elapsed: float) -> FaultVerdict:
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
    return FaultVerdict(latency, skew, refusal, reset, tuple(watch), tuple(matched))


log = structlog.get_logger()


class FaultBook:
    """Holds one set of faults at a time; giving another one starts its clock and its counts afresh.

    Args:
        restart: restarts the server.
        lag: tells the stale listener how far to be behind.
    """

    def __init__(self, restart: Callable[[Restart], None], lag: Callable[[Lag], None]) -> None:
        self._restart = restart
        self._lag = lag
        self._tallies: dict[str, FaultCounts] = {}
        self._timers: list[asyncio.TimerHandle] = []
        self._since = 0.0
        self.faults = Faults()

    @property
    def tallies(self) -> dict[str, FaultCounts]:
        """How often each rule was asked and struck."""
        return {rule.name: self._tallies.get(rule.name, NOTHING) for rule in self.faults.rules}

    def put(self, faults: Faults) -> None:
        """Have these faults, and no others."""
        self.close()
        loop = asyncio.get_running_loop()
        self.faults, self._tallies, self._since = faults, {}, loop.time()
        self._lag(faults.lag)
        for one in faults.restarts:
            self._timers.append(loop.call_later(one.at, self._restart, one))
        if faults != Faults():
            log.info("faults_set", rules=[rule.name for rule in faults.rules], restarts=len(faults.restarts))

    def put_rule(self, rule: Rule) -> None:
        """Have one rule more, or in place of the one of its name; the others go on as they are."""
        self._tallies.pop(rule.name, None)
        self.faults = self.faults.with_rule(rule)

    def drop_rule(self, name: str) -> bool:
        """Have one rule less; False where there is none of that name."""
        known = any(rule.name == name for rule in self.faults.rules)
        self._tallies.pop(name, None)
        self.faults = self.faults.without_rule(name)
        return known

    def ask(self, asked: Asked) -> FaultVerdict:
        """What is done to a request, and take note of it."""
        elapsed = asyncio.get_running_loop().time() - self._since
        verdict = decide(self.faults, asked, self._tallies, elapsed=elapsed)
        for name, struck in verdict.matched:
            self._tallies[name] = self._tallies.get(name, NOTHING).after(struck=struck)
            if struck:
                log.debug("fault_struck", rule=name, verb=asked.verb, resource=asked.resource, name=asked.name)
        if verdict.refusal is not None and verdict.reset:
            return replace(verdict, refusal=None)
        return verdict

    def close(self) -> None:
        """Have no more restarts."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
