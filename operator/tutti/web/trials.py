"""What would help a workload, tried out for whoever asks for it: one trial at a time, kept for those who ask later.

A trial costs seconds of a processor on a large cluster. So it is begun by a click (a POST from our own page) and by
nothing else, such as a link that is opened; it says how far it is; it ends when nobody waits for it any more; and what
it has found is kept for a while, so that whoever is sent the address reads the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from tutti.cli.views.what_if import Abandoned, Effort
from tutti.web.access import Refused
from tutti.web.documents import PageDocument
from tutti.web.pages.asking import NotShown, PageRequest
from tutti.web.pages.workload import remedies_document

MOST_TRIED: Final = 4
"""So many trials may wait for one another."""
MOST_KEPT: Final = 32
KEPT_SECONDS: Final = 600.0
"""How long it is told what was found: it says of when it is."""
_TOLD_SECONDS: Final = 1.0
"""How often it is told how far a trial is."""

SEES_ALL: Final = "only who may see all queues, nodes and workloads can have tried out what would help"

TrialKey = tuple[str, str, str]
"""Kind, namespace and name, as they were asked for."""


class TrialNews(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is told of a trial.

    Attributes:
        state: `none` where nothing is known, `waiting`, `trying`, `done`, or `over` where it came to nothing.
        ahead: How many trials go before it.
        tried: How many changes have been tried.
        problem: Why it came to nothing.
        at: Of when the answer is, Unix seconds.
        document: The answer.
    """

    state: str
    ahead: int = 0
    tried: int = 0
    problem: str = ""
    at: float = 0.0
    document: PageDocument | None = None


class _Kept(NamedTuple):
    until: float
    news: TrialNews


@dataclass(slots=True, eq=False)
class _Trial:
    """One that waits or is under way."""

    work: asyncio.Future[PageDocument]
    at: float
    effort: Effort
    watchers: int = 0
    owners: set[str] = field(default_factory=set)


class Trials:
    """Trials, in a thread of their own, so that they hold up no page."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="trials")
        self._under_way: dict[TrialKey, _Trial] = {}
        self._kept: dict[TrialKey, _Kept] = {}

    def kept(self, key: TrialKey) -> TrialNews:
        """Return what is known already: an answer that is kept, or that it is being found out. Nothing is begun."""
        found, trial = self._kept.get(key), self._under_way.get(key)
        if found is not None and found.until > self._clock():
            return found.news
        return TrialNews("none") if trial is None else TrialNews("trying", tried=trial.effort.tried)

    async def follow(self, key: TrialKey, asked: PageRequest) -> AsyncGenerator[TrialNews, None]:
        """Begin a trial, unless it is under way, and yield how far it is; the last has the answer.

        Whoever stops listening gives it up; with the last of them it ends.

        Raises:
            Refused: Too many wait, or he has one under way.
        """
        trial = self._under_way.get(key) or self._begun(key, asked)
        trial.watchers += 1
        try:
            while not trial.work.done():
                yield self._progress(key, trial)
                await asyncio.wait({trial.work}, timeout=_TOLD_SECONDS)
            yield self._end(key, trial)
        finally:
            trial.watchers -= 1
            if not trial.watchers:
                trial.effort.over = True
                if self._under_way.get(key) is trial:
                    del self._under_way[key]

    def _begun(self, key: TrialKey, asked: PageRequest) -> _Trial:
        who = asked.viewer.name
        if len(self._under_way) >= MOST_TRIED:
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "too much is being tried out: try again in a moment")
        if who and any(who in one.owners for one in self._under_way.values()):
            text = f"something is being tried out for {who} already: wait for it, or stop it"
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, text)
        effort = Effort()
        asked = replace(asked, effort=effort)
        work = asyncio.get_running_loop().run_in_executor(self._worker, remedies_document, asked)
        trial = self._under_way[key] = _Trial(work, asked.picture.at, effort, owners={who})
        return trial

    def _progress(self, key: TrialKey, trial: _Trial) -> TrialNews:
        ahead = list(self._under_way).index(key) if key in self._under_way else 0
        return TrialNews("waiting", ahead=ahead) if ahead else TrialNews("trying", tried=trial.effort.tried)

    def _end(self, key: TrialKey, trial: _Trial) -> TrialNews:
        try:
            document = trial.work.result()
        except (NotShown, Abandoned) as error:
            return TrialNews("over", problem=str(error))
        news = TrialNews("done", tried=trial.effort.tried, at=trial.at, document=document)
        self._kept.pop(key, None)
        while len(self._kept) >= MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = _Kept(self._clock() + KEPT_SECONDS, news)
        return news

    def close(self) -> None:
        """End the thread; what is being tried out there comes to nothing."""
        for one in self._under_way.values():
            one.effort.over = True
        self._worker.shutdown(wait=False, cancel_futures=True)
