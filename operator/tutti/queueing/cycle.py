"""One cycle of admission: the heads of all queues are looked at together, and each is admitted, preempts, or waits.

Rules: Kueue, scheduler.go `schedule` and `processEntry` (0.20). Every head is nominated by itself, against the same
state. Then they are processed in order, each against what those before it have taken:

    does not fit                                   waits
    needs preemption, but nobody may be preempted  waits, and holds back what is free of its request, unless its queue
                                                   can always reclaim its own
    shares victims with one before it              is chosen for anew in the flavors it had, as if those were gone;
                                                   where it fits then, it waits for them with its quota counted
    has its places taken by one before it          is chosen for anew in the flavors it had
    does not fit any more                          waits
    otherwise                                      its quota counts, and it is admitted or its victims are preempted

One thing is stricter here: what fits only because victims will be gone waits for them, so that no limit is exceeded
in the meantime.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tutti.queueing.entries import entry_key
from tutti.queueing.nomination import Entry, Head, Nominator
from tutti.queueing.requeue import Requeue
from tutti.queueing.tournament import in_fair_order
from tutti.quota.holdback import hold_back
from tutti.quota.outcome import Choice, NoFit, Verdict
from tutti.quota.policy import Who
from tutti.quota.snapshot import Holder
from tutti.quota.topologies import Occupied, occupied
from tutti.quota.tree import FlavorResource
from tutti.quota.victims import Victim

WAITING = NoFit.WAITING_FOR_QUOTA.reason
WAITING_FOR_VICTIMS = "WaitingForPreemptedWorkloads"


@dataclass(slots=True)
class Cycle:
    """One cycle; whoever admits charges the snapshot after it.

    Attributes:
        nominator: With the state to decide on; unchanged afterwards.
    """

    nominator: Nominator
    _going: dict[str, Holder] = field(default_factory=dict)
    _promised: list[tuple[str, Mapping[FlavorResource, int], tuple[Occupied, ...]]] = field(default_factory=list)

    def run(self, heads: Iterable[Head]) -> list[Entry]:
        """Decide on the heads, one of each queue, and return them in the order in which they were processed."""
        entries = [self.nominator.nominate(head) for head in heads]
        done = [entry for entry in entries if entry.choice is None]
        with self.nominator.snapshot.trial():
            for entry in self._in_order([entry for entry in entries if entry.choice is not None]):
                assert entry.choice is not None
                self._process(entry, entry.choice)
                done.append(entry)
        return done

    def _in_order(self, entries: list[Entry]) -> Iterator[Entry]:
        if self.nominator.rules.fair:
            return in_fair_order(self.nominator.snapshot, {entry.head.queue: entry for entry in entries})
        return iter(sorted(entries, key=_classical))

    def _process(self, entry: Entry, choice: Choice) -> None:
        if self._overlaps(entry.victims):
            choice = self._choose_anew(entry, choice, self._going)
            if choice.verdict is Verdict.FIT:
                choice.instead = Verdict.DEFERRED
        elif self._fits(entry, choice) and not self._has_places(entry, choice):
            choice = self._choose_anew(entry, choice, {})
        match choice.verdict:
            case Verdict.NO_FIT:
                _wait(entry, Requeue.NO_FIT, choice.why().reason)
            case Verdict.PREEMPT if not entry.victims:
                _wait(entry, Requeue.NO_CANDIDATES, WAITING)
                self._hold_back(entry, choice)
            case Verdict.DEFERRED:
                self._wait_for_victims(entry, choice)
            case _ if self._overlaps(entry.victims) or not self._may_have(entry, choice):
                entry.overtaken = choice.verdict is Verdict.PREEMPT
                _wait(entry, Requeue.FAILED_AFTER_NOMINATION, WAITING)
            case Verdict.PREEMPT:
                self._going |= {victim.holder.name: victim.holder for victim in entry.victims}
                self._wait_for_victims(entry, choice)
            case _ if not self._fits_beside_victims(entry, choice):
                self._wait_for_victims(entry, choice)
            case _:
                self.nominator.snapshot.charge(entry.head.queue, choice.usage, occupied(choice))
                entry.admitted = True

    def _wait_for_victims(self, entry: Entry, choice: Choice) -> None:
        self._promise(entry, choice, choice.usage)
        entry.scan = ()
        _wait(entry, Requeue.PENDING_PREEMPTION, WAITING_FOR_VICTIMS)

    def _choose_anew(self, entry: Entry, choice: Choice, gone: Mapping[str, Holder]) -> Choice:
        """Choose once more within the same flavors, as if these holders were gone."""
        snapshot = self.nominator.snapshot
        had = {(pods.name, name): one.flavor for pods in choice.pod_sets for name, one in pods.flavors.items()}
        with snapshot.trial():
            for holder in gone.values():
                snapshot.remove(holder)
            self.nominator.assign(entry, only=had)
        assert entry.choice is not None
        return entry.choice

    def _overlaps(self, victims: list[Victim]) -> bool:
        return any(victim.holder.name in self._going for victim in victims)

    def _may_have(self, entry: Entry, choice: Choice) -> bool:
        return self._fits(entry, choice) and self._has_places(entry, choice)

    def _fits(self, entry: Entry, choice: Choice) -> bool:
        """Whether there is quota once its victims, and those of all before it, are gone."""
        node = self.nominator.snapshot.queue(entry.head.queue)
        with self._without_victims(entry):
            return all(amount <= max(0, node.available(what)) for what, amount in choice.usage.items())

    def _has_places(self, entry: Entry, choice: Choice) -> bool:
        """Whether there is room then where its pods are to go."""
        with self._without_victims(entry):
            return self.nominator.snapshot.topologies.fits(occupied(choice))

    @contextmanager
    def _without_victims(self, entry: Entry) -> Iterator[None]:
        snapshot = self.nominator.snapshot
        gone = self._going | {victim.holder.name: victim.holder for victim in entry.victims}
        with snapshot.trial():
            for holder in gone.values():
                snapshot.remove(holder)
            yield

    def _hold_back(self, entry: Entry, choice: Choice) -> None:
        snapshot = self.nominator.snapshot
        if snapshot.policy(entry.head.queue).reclaim is not Who.ANY:
            node = snapshot.queue(entry.head.queue)
            self._promise(entry, choice, hold_back(node, choice.usage, borrows=choice.level > 0))

    def _fits_beside_victims(self, entry: Entry, choice: Choice) -> bool:
        """Whether it fits while all victims are still there; what is only promised does not count yet."""
        snapshot = self.nominator.snapshot
        node = snapshot.queue(entry.head.queue)
        with snapshot.trial():
            for promise in self._promised:
                snapshot.refund(*promise)
            quota = all(amount <= max(0, node.available(what)) for what, amount in choice.usage.items())
            return quota and snapshot.topologies.fits(occupied(choice))

    def _promise(self, entry: Entry, choice: Choice, usage: Mapping[FlavorResource, int]) -> None:
        """Keep others off what this entry is to have later."""
        promise = (entry.head.queue, usage, occupied(choice))
        self.nominator.snapshot.charge(*promise)
        self._promised.append(promise)


def _classical(entry: Entry) -> tuple[object, ...]:
    level = entry.choice.level if entry.choice else 0
    return entry_key(entry.priority, entry.queued_at, level)


def _wait(entry: Entry, requeue: Requeue, reason: str) -> None:
    entry.requeue, entry.reason = requeue, reason
