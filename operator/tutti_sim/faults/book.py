"""The faults in force: their rules, how often each was asked, and the restarts that are still to come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import structlog

from tutti_sim.faults.decide import NOTHING, Asked, Tally, Verdict, decide
from tutti_sim.faults.rules import Faults, Lag, Restart, Rule

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
        self._tallies: dict[str, Tally] = {}
        self._timers: list[asyncio.TimerHandle] = []
        self._since = 0.0
        self.faults = Faults()

    @property
    def tallies(self) -> dict[str, Tally]:
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

    def ask(self, asked: Asked) -> Verdict:
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
