"""Fault rules as a user writes them, in a file or to the admin endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tutti.api.model import Model, ShortName
from tutti_sim.hollow.fate import Duration, Probability
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


def load(path: Path) -> Faults:
    """The faults in a file.

    Raises:
        ConfigurationError: The file is not as it should be; the error says where, and what would be right.
    """
    return yamlfile.read(path.read_text(encoding="utf-8"), Faults, str(path))
