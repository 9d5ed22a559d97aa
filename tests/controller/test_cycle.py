"""When the engine is fed and when it is asked."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from tutti.api.core import Pod, PodStatus
from tutti.controller import cycle as module
from tutti.controller.cycle import Cycle
from tutti.controller.metrics import Metrics
from tutti.engine.records.decisions import DeletePodGroup
from tutti.engine.records.observations import BindAnswer, BindFinished, Interrupted, NodeGone, PodSeen, Synced
from tutti.kube.fencing import LeadershipDoubted, LeadershipLost


class Recorder:
    """An engine that answers from a list and remembers what it was told and when it was asked."""

    def __init__(self, *answers, alarms=()):
        self.told = []
        self.asked = []
        self.answers = list(answers)
        self.alarms = list(alarms)
        self.progress = asyncio.Event()

    def observe(self, observation):
        self.told.append(observation)
        self.progress.set()

    def decide(self, now, *, most=None, enough=None):
        self.asked.append(now)
        self.progress.set()
        return self.answers.pop(0) if self.answers else []

    def wakeup(self):
        return self.alarms.pop(0) if self.alarms else None

    async def until(self, condition):
        while not condition():
            self.progress.clear()
            await asyncio.wait_for(self.progress.wait(), 60)


class Pages:
    def __init__(self):
        self.lines = []

    def saw(self, observation):
        self.lines.append(observation)

    def decided(self, now, decisions, *, most=None, ended=None):
        self.lines.append((now, list(decisions)))


async def running(cycle, inside):
    task = asyncio.ensure_future(cycle.run())
    try:
        await inside
    finally:
        task.cancel()
        await asyncio.wait([task])
    return task


async def test_nothing_is_decided_before_everything_is_listed_and_the_lease_is_held():
    engine = Recorder()
    cycle = Cycle(engine, lambda _: None, metrics=Metrics())

    async def story():
        cycle.observe(NodeGone("a"))
        await engine.until(lambda: engine.told)
        cycle.synced()
        await engine.until(lambda: Synced() in engine.told)
        await asyncio.sleep(0)
        assert engine.asked == []
        cycle.lead()
        await engine.until(lambda: engine.asked)

    await running(cycle, story())
    assert engine.told == [NodeGone("a"), Synced()]


async def test_nothing_is_decided_before_all_is_told_that_was_observed_when_it_came_to_lead():
    """A successor has listed what others have bound just before: all of that has to count at its first decision."""
    engine = Recorder()
    cycle = Cycle(engine, lambda _: None, metrics=Metrics())
    many = [NodeGone(f"n{number}") for number in range(1000)]

    async def story():
        cycle.synced()
        await engine.until(lambda: engine.told)
        for one in many:
            cycle.observe(one)
        cycle.lead()
        cycle.observe(NodeGone("later"))
        await engine.until(lambda: engine.asked)
        assert engine.told[1:1001] == many

    await running(cycle, story())


async def test_a_node_is_told_to_be_gone_once_the_engine_knows_of_it():
    """What it decides before it knows goes to that node still, and is what is to be withdrawn."""
    engine = Recorder()
    known = []
    cycle = Cycle(
        engine, lambda _: None, metrics=Metrics(), node_gone=lambda name: known.append((name, [*engine.told]))
    )
    many = [NodeGone(f"n{number}") for number in range(300)]

    async def story():
        for one in many:
            cycle.observe(one)
        assert known == []
        await engine.until(lambda: len(engine.told) == 300)

    await running(cycle, story())
    assert [name for name, _ in known] == [one.name for one in many]
    assert all(told[-1] == one for (_, told), one in zip(known, many, strict=True))


async def test_synced_is_told_once_however_often_it_is_reported():
    engine = Recorder()
    cycle = Cycle(engine, lambda _: None, metrics=Metrics())
    cycle.lead()
    cycle.synced()
    cycle.synced()

    await running(cycle, engine.until(lambda: engine.asked))
    assert engine.told == [Synced()]


async def test_decisions_are_handed_on_in_order_and_the_results_come_back():
    first, second = DeletePodGroup("n", "a", "1"), DeletePodGroup("n", "b", "2")
    engine = Recorder([first, second])
    carried = []

    def carry_out(decisions):
        carried.extend(decisions)
        cycle.observe(NodeGone("answer"))

    cycle = Cycle(engine, carry_out, metrics=Metrics())
    cycle.lead()
    cycle.synced()

    await running(cycle, engine.until(lambda: len(engine.asked) == 2))
    assert carried == [first, second]
    assert engine.told[-1] == NodeGone("answer")


async def test_the_engine_is_asked_again_at_the_time_it_named_and_given_that_time_or_later():
    alarm = time.time() + 0.05
    engine = Recorder(alarms=[alarm])
    cycle = Cycle(engine, lambda _: None, metrics=Metrics())
    cycle.lead()
    cycle.synced()

    await running(cycle, engine.until(lambda: len(engine.asked) == 2))
    # Timers and the wall clock are not the same clock; they may differ by their resolution.
    assert engine.asked[1] >= alarm - 0.01


async def test_an_alarm_in_the_past_is_answered_at_once_without_starving_the_loop():
    engine = Recorder(alarms=[0.0] * 50)
    cycle = Cycle(engine, lambda _: None, metrics=Metrics())
    cycle.lead()
    cycle.synced()

    await running(cycle, engine.until(lambda: len(engine.asked) > 50))


async def test_at_rest_it_takes_in_what_is_seen_but_asks_nothing():
    engine = Recorder(alarms=[0.0])
    cycle = Cycle(engine, lambda _: None, metrics=Metrics())
    cycle.lead()
    cycle.rest()
    cycle.synced()

    await running(cycle, engine.until(lambda: engine.told))
    assert engine.asked == []


async def test_what_the_engine_raises_ends_the_run():
    class Broken(Recorder):
        def decide(self, now, *, most=None, enough=None):
            raise RuntimeError("inconsistent")

    cycle = Cycle(Broken(), lambda _: None, metrics=Metrics())
    cycle.lead()
    cycle.synced()

    with pytest.raises(RuntimeError, match="inconsistent"):
        await asyncio.wait_for(cycle.run(), 60)


async def test_the_journal_holds_observations_and_decisions_in_the_order_the_engine_met_them():
    decision = DeletePodGroup("n", "a", "1")
    engine, pages = Recorder([decision]), Pages()
    cycle = Cycle(engine, lambda _: None, metrics=Metrics(), journal=pages, clock=lambda: 7.0)
    cycle.observe(NodeGone("a"))
    cycle.synced()
    cycle.lead()

    await running(cycle, engine.until(lambda: engine.asked))
    assert pages.lines == [NodeGone("a"), Synced(), (7.0, [decision])]


async def test_a_flood_of_observations_lets_other_tasks_run_in_between():
    engine = Recorder()
    cycle = Cycle(engine, lambda _: None, metrics=Metrics())
    turns = []

    async def bystander():
        while len(engine.told) < 5000:
            turns.append(len(engine.told))
            await asyncio.sleep(0)

    for number in range(5000):
        cycle.observe(NodeGone(str(number)))
    await running(cycle, bystander())
    assert len(set(turns)) > 5


async def test_after_a_long_decision_the_loop_is_left_to_others_for_a_while(monkeypatch):
    monkeypatch.setattr(module, "_LONGEST_REST_SECONDS", 3600.0)
    now = [100.0]

    class Slow(Recorder):
        def decide(self, at, *, most=None, enough=None):
            now[0] += 3600.0
            return super().decide(at, most=most)

    engine = Slow(alarms=[0.0] * 3)
    cycle = Cycle(engine, lambda _: None, metrics=Metrics(), clock=lambda: now[0])

    async def story():
        cycle.lead()
        cycle.synced()
        await engine.until(lambda: engine.asked)
        for _ in range(20):  # two rounds of the loop are what others had without
            await asyncio.sleep(0)
        assert len(engine.asked) == 1

    await running(cycle, story())


async def test_nothing_is_decided_while_it_is_in_doubt_who_leads_and_all_is_taken_in():
    engine, settled, doubtful = Recorder(alarms=[0.0, 0.0]), asyncio.Event(), []

    def fence():
        if doubtful:
            raise LeadershipDoubted("late", settled=settled.wait)
        return 1.0

    cycle = Cycle(engine, lambda _: None, metrics=Metrics(), fence=fence)

    async def story():
        cycle.synced()
        cycle.lead()
        await engine.until(lambda: engine.asked)
        doubtful.append(True)
        cycle.observe(NodeGone("a"))
        await engine.until(lambda: NodeGone("a") in engine.told)
        asked = len(engine.asked)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(engine.asked) == asked
        doubtful.clear()
        settled.set()
        await engine.until(lambda: len(engine.asked) > asked)

    task = await running(cycle, story())
    assert task.cancelled()


async def test_the_engine_is_told_of_time_in_which_nothing_could_be_written_before_it_is_asked():
    engine, pages, lost = Recorder(), Pages(), [5.0]
    times = {"clock": lambda: 100.0, "ticks": lambda: 0.0}
    cycle = Cycle(engine, lambda _: None, metrics=Metrics(), journal=pages, lost=lambda: lost[0], **times)

    async def story():
        cycle.synced()
        cycle.lead()
        await engine.until(lambda: engine.asked)
        lost[0] += 30.0
        cycle.observe(NodeGone("a"))
        await engine.until(lambda: len(engine.asked) > 1)
        cycle.observe(NodeGone("b"))
        await engine.until(lambda: len(engine.asked) > 2)

    await running(cycle, story())
    told = [one for one in pages.lines if not isinstance(one, Synced)]
    assert [one if isinstance(one, Interrupted) else type(one) for one in told] == [
        tuple, NodeGone, Interrupted(30.0, 100.0), tuple, NodeGone, tuple
    ]  # fmt: skip


async def test_a_lost_lease_ends_the_run():
    engine = Recorder()

    def fence():
        raise LeadershipLost("another leads")

    cycle = Cycle(engine, lambda _: None, metrics=Metrics(), fence=fence)
    cycle.synced()
    cycle.lead()
    with pytest.raises(LeadershipLost):
        await asyncio.wait_for(cycle.run(), 60)
    assert engine.asked == []


async def test_a_turn_is_told_when_its_share_of_time_is_over_and_the_journal_keeps_at_which_question():
    now, kept = [100.0], []

    class Slow(Recorder):
        """Each try takes 0.03 s."""

        def decide(self, at, *, most=None, enough=None):
            tries = 1
            now[0] += 0.03
            while not enough():
                tries += 1
                now[0] += 0.03
            super().decide(at)
            return [DeletePodGroup("n", str(tries), "1")]

    class Kept(Pages):
        def decided(self, at, decisions, *, most=None, ended=None):
            kept.append((decisions[0].name, ended))

    engine = Slow()
    cycle = Cycle(engine, lambda _: None, metrics=Metrics(), journal=Kept(), ticks=lambda: now[0])
    cycle.synced()
    cycle.lead()
    await running(cycle, engine.until(lambda: engine.asked))
    assert kept == [("4", 4)]


async def test_observations_that_are_long_to_take_in_leave_the_loop_to_others_in_between():
    now = [100.0]

    class Slow(Recorder):
        def observe(self, observation):
            now[0] += 0.03
            super().observe(observation)

    engine, seen = Slow(), set()
    cycle = Cycle(engine, lambda _: None, metrics=Metrics(), ticks=lambda: now[0])

    async def bystander():
        while len(engine.told) < 20:
            seen.add(len(engine.told))
            await asyncio.sleep(0)

    for number in range(20):
        cycle.observe(NodeGone(str(number)))
    await running(cycle, bystander())
    assert {2, 4, 6, 18} <= seen


def seen(node=""):
    return PodSeen(msgspec.convert({"metadata": {"name": "p"}, "spec": {"nodeName": node}}, Pod))


async def test_between_two_turns_a_pod_that_waits_is_not_kept_waiting_and_an_answer_is(monkeypatch):
    monkeypatch.setattr(module, "_APART_SECONDS", 3600.0)
    monkeypatch.setattr(module, "_ECHOES_APART_SECONDS", 3600.0)
    engine = Recorder()
    cycle = Cycle(engine, lambda _: None, metrics=Metrics())

    async def story():
        cycle.synced()
        cycle.lead()
        await engine.until(lambda: engine.asked)
        for kept in (BindFinished("a", "p", "u", "n", BindAnswer.BOUND, ""), seen(node="n"), NodeGone("a")):
            cycle.observe(kept)
            await asyncio.sleep(2 * module._ARRIVALS_APART_SECONDS)
            assert len(engine.asked) == 1
        cycle.observe(seen())
        await engine.until(lambda: len(engine.asked) == 2)
        assert len(engine.told) == 5, "what was kept back is told with it"
        cycle.observe(seen())
        await engine.until(lambda: len(engine.asked) == 3)

    await running(cycle, story())


async def test_that_binds_took_effect_is_kept_back_for_longer_than_anything_else(monkeypatch):
    monkeypatch.setattr(module, "_ECHOES_APART_SECONDS", 3600.0)
    engine = Recorder()
    cycle = Cycle(engine, lambda _: None, metrics=Metrics())
    bound = BindFinished("a", "p", "u", "n", BindAnswer.BOUND, "")
    running_pod = msgspec.structs.replace(seen(node="n").pod, status=msgspec.convert({"phase": "Running"}, PodStatus))

    async def story():
        cycle.synced()
        cycle.lead()
        await engine.until(lambda: engine.asked)
        for echo in (bound, seen(node="n")):
            cycle.observe(echo)
            await asyncio.sleep(2 * module._APART_SECONDS)
            assert len(engine.asked) == 1
        failed = msgspec.structs.replace(bound, outcome=BindAnswer.FAILED)
        for turns, news in enumerate((NodeGone("a"), failed, PodSeen(running_pod)), start=2):
            cycle.observe(news)
            await engine.until(lambda turns=turns: len(engine.asked) == turns)
        for _ in range(module._BATCH):
            cycle.observe(bound)
        await engine.until(lambda: len(engine.asked) == 5)

    await running(cycle, story())


async def test_who_wants_to_be_asked_at_a_time_is_asked_then_though_echoes_are_kept_back(monkeypatch):
    monkeypatch.setattr(module, "_ECHOES_APART_SECONDS", 3600.0)
    engine = Recorder(alarms=[time.time() + 0.05])
    cycle = Cycle(engine, lambda _: None, metrics=Metrics())

    async def story():
        cycle.synced()
        cycle.lead()
        await engine.until(lambda: len(engine.asked) == 2)

    await running(cycle, story())
