"""Two replicas, of which only one may act: what is paused, or has lost its lease, writes nothing any more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.network import Sent
from tests.simulation.run import Outcome, play
from tests.simulation.steps import Scenario, Step
from tests.simulation.stories import PREEMPTS, START, cluster, gang, story
from tests.simulation.world import World
from tutti.kube.lease import Elector

LEASE_SECONDS = 15


def bound(outcome: Outcome) -> dict[str, tuple[float, str]]:
    """When each pod was bound, and by whom; none is bound twice."""
    lines = [line.split() for line in outcome.trace if "/binding 201" in line]
    found = {line[3].split("/")[-2]: (float(line[0]), line[1]) for line in lines}
    assert len(found) == len(lines)
    return found


def asleep(at: float, seed: int = 0) -> Scenario:
    """The leader sleeps from a moment on, for three times as long as its lease lasts; gangs come meanwhile."""
    pause = Step(at, "pause", {"replica": "leader", "seconds": 3.0 * LEASE_SECONDS})
    gangs = [*gang("g", 3, queue="q1"), *gang("h", 3, at=20.0, queue="q2")]
    return story(cluster(replicas="ab"), gangs, [pause], heal_at=90, seed=seed)


@pytest.mark.parametrize("at", [3.0, 3.002, 3.004, 3.006, 3.01, 3.02, 3.05])
def test_a_leader_that_wakes_after_its_lease_was_taken_writes_nothing(at: float):
    """It sleeps while a gang is being bound; the other replica binds the rest, and each pod is bound once."""
    outcome = play(asleep(at))
    assert outcome.violations == []
    binds = bound(outcome)
    assert sorted(binds) == ["g-0", "g-1", "g-2", "h-0", "h-1", "h-2"]
    assert all(binds[name][0] < at + 3 * LEASE_SECONDS for name in binds)  # nobody has waited for the sleeper


def test_the_one_that_woke_stands_by_until_it_is_needed_again():
    """It ends, is started anew, and takes over when the other dies."""
    steps = [
        Step(4.0, "pause", {"replica": "leader", "seconds": 40.0}),
        Step(70.0, "crash", {"replica": "leader"}),
    ]
    gangs = [*gang("g", 2, queue="q1"), *gang("h", 2, at=71.0, queue="q1")]
    # The one that died is back before its lease has run out, and asks for it as often: a seed in which it is not first.
    outcome = play(story(cluster(replicas="ab"), gangs, steps, heal_at=120, seed=6))
    assert outcome.violations == []
    binds = bound(outcome)
    assert (binds["g-0"][1], binds["h-0"][1]) == ("a.1", "a.2")


def test_a_leader_alone_goes_on_when_it_wakes():
    """Nobody has taken its lease, so it neither ends nor waits for it to run out."""
    pause = Step(4.0, "pause", {"replica": "leader", "seconds": 40.0})
    gangs = [*gang("g", 2, queue="q1"), *gang("h", 2, at=20.0, queue="q2")]
    outcome = play(story(cluster(), gangs, [pause], heal_at=90))
    assert outcome.violations == []
    assert {who for _, who in bound(outcome).values()} == {"a.1"}
    assert len(bound(outcome)) == 4


def test_without_the_fence_it_would_write(monkeypatch: pytest.MonkeyPatch):
    """So it is the fence that keeps it from writing, not luck: each writer asks before each write."""
    monkeypatch.setattr(Elector, "check", lambda _: float("inf"))
    told = [one for seed in range(4) for one in play(asleep(3.02, seed)).violations]
    assert any("while b.1 holds the lease" in one for one in told)


def held(what: str, method: str, times: int) -> Scenario:
    """The server takes longer than a lease for the first write of a kind, or the first few, and the leader sleeps meanwhile."""
    slow = {"what": what, "method": method, "how": "hold", "seconds": 25.0, "times": times}
    pause = Step(START + 1.0, "pause", {"replica": "leader", "seconds": 3.0 * LEASE_SECONDS})
    gangs = [*gang("g", 3, queue="q1", seconds=90.0), *gang("h", 3, at=25.0, queue="q2")]
    return story(cluster(replicas="ab"), gangs, [Step(0.0, "trouble", slow), pause], heal_at=120)


def landing(landed: list[str]) -> Callable[[World], None]:
    """Note what takes effect while it is not its sender who holds the lease."""

    def prepare(world: World) -> None:
        def look(sent: Sent, status: int) -> None:
            lease = world.server.backend.find("leases.coordination.k8s.io", "kube-system", "tutti")
            holder = lease["spec"]["holderIdentity"] if lease else ""
            if sent.is_write and sent.what != "leases" and status < 300 and holder not in ("", sent.owner):
                landed.append(f"{sent.method} {sent.what} of {sent.owner} under {holder}")

        world.network.handled.append(look)

    return prepare


WRITES = [("pods/binding", "POST"), ("pods/status", "PATCH"), ("podgroups/status", "PATCH")]


@pytest.mark.parametrize(("what", "method"), WRITES)
def test_a_write_that_is_under_way_when_its_leader_falls_asleep_is_over_before_the_next_one_leads(
    what: str, method: str
):
    """The server was told for how long it may work on it; nobody has to be there to take it back."""
    landed: list[str] = []
    outcome = play(held(what, method, 3), prepare=landing(landed))
    assert outcome.violations == []
    assert landed == []
    assert {line.split()[1] for line in outcome.trace} >= {"a.1", "b.1"}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_leader_whose_machine_was_stopped_and_its_clock_with_it_takes_nobody_out(number: int):
    """It has told its victims that they are to go, and does not know when it goes on that another leads.

    Whom they were to leave for has been given up meanwhile, so that the other one has them stay.
    """
    low = gang("low", 2, how="Workload", queue="q3", gpus=3, seconds=80.0)
    high = gang("high", 2, at=10.0, how="Workload", queue="q3", gpus=3, priority=10, seconds=5.0)
    stop = {"do": "stop", "args": {"replica": "sender", "seconds": 3.0 * LEASE_SECONDS}}
    told = {"what": "pods/status", "method": "PATCH", "number": number, "done": True}
    steps = [Step(9.9, "at_write", {**told, **stop}), Step(20.0, "cancel", {"gang": "high"})]
    landed: list[str] = []

    def prepare(world: World) -> None:
        world.network.sending.remove(world._check_leader)  # what it says of others is put right by who leads
        landing(landed)(world)

    outcome = play(story(cluster(replicas="ab", **PREEMPTS), low, high, steps, heal_at=90), prepare=prepare)
    assert outcome.violations == []
    assert [one for one in landed if one.startswith("DELETE")] == []


LATE = [("pods/binding", "POST", "409"), ("podgroups/status", "PATCH", "422")]


@pytest.mark.parametrize(("what", "method", "refused"), LATE)
def test_a_write_that_is_late_all_the_same_is_refused_by_what_it_is_about(
    monkeypatch: pytest.MonkeyPatch, what: str, method: str, refused: str
):
    """The server is told of no limit here: a pod has a node by now, and a status a later generation of the lease."""
    check = Elector.check
    monkeypatch.setattr(Elector, "check", lambda elector: check(elector) + 1000.0)
    landed: list[str] = []
    outcome = play(held(what, method, 1), prepare=landing(landed))
    assert outcome.violations == []
    assert landed == []
    resource = what.partition("/")[0]
    late = [line.split() for line in outcome.trace if f"/{resource}/" in line and line.split()[1] == "a.1"]
    assert refused in {line[-1] for line in late if float(line[0]) > START + 20.0}


def test_without_its_generation_a_late_status_would_be_the_last_word(monkeypatch: pytest.MonkeyPatch):
    check = Elector.check
    monkeypatch.setattr(Elector, "check", lambda elector: check(elector) + 1000.0)
    monkeypatch.setattr(Elector, "term", None)
    landed: list[str] = []
    play(held("podgroups/status", "PATCH", 1), prepare=landing(landed))
    assert landed


def test_a_leader_that_ends_with_writes_under_way_leaves_its_lease_to_run_out():
    """It is asked to stop while its evictions take longer than it may wait for: the next one leads when these are over."""
    low = gang("low", 2, how="Workload", queue="q3", gpus=3, seconds=300.0)
    high = gang("high", 2, at=10.0, how="Workload", queue="q3", gpus=3, priority=10, seconds=5.0)
    slow = {"what": "pods", "method": "DELETE", "how": "hold", "times": 2}
    steps = [Step(9.0, "trouble", {**slow, "seconds": 13.0}), Step(9.0, "trouble", {**slow, "seconds": 9.0})]

    def prepare(world: World) -> None:
        world.loop.call_at(12.0, lambda: world.loop.create_task(world.operators["a"].shut()))
        world.loop.call_at(12.5, lambda: world.loop.create_task(world.do_start("b")))

    outcome = play(story(cluster(**PREEMPTS), low, high, steps, heal_at=60), prepare=prepare)
    assert outcome.violations == []
    lines = [line.split() for line in outcome.trace]
    assert [line[-1] for line in lines if line[1:3] == ["a.1", "DELETE"]] == ["200", "200"]
    assert max(float(line[0]) for line in lines if line[1] == "a.1") < min(
        float(line[0]) for line in lines if line[1] == "b.1"
    )


def test_a_leader_that_ends_with_nothing_under_way_gives_its_lease_to_the_next():
    def prepare(world: World) -> None:
        world.loop.call_at(10.0, lambda: world.loop.create_task(world.operators["a"].shut()))

    outcome = play(story(cluster(replicas="ab"), gang("g", 2, at=11.0, queue="q1")), prepare=prepare)
    assert bound(outcome)["g-0"][0] < 14.0


def behind(end: Callable[[World], None], *troubles: dict[str, object]) -> Outcome:
    """The other replica sees pods a minute late; whoever leads fills a node meanwhile, and ends.

    A gang that it knows, and whose queue comes when it leads, would fit on the node as it sees it.
    """

    def prepare(world: World) -> None:
        world.loop.call_at(2.5, world.network.lags.update, {("b.1", "pods"): 60.0})
        world.loop.call_at(5.0, end, world)

    opens = Step(30.0, "put", {"kind": "LocalQueue", "name": "q4", "spec": {"clusterQueue": "cq3"}})
    late = [*gang("late", 1, at=1.0, queue="q4", gpus=4), opens]
    fills = gang("first", 1, queue="q1", gpus=4, seconds=80.0)
    steps = [Step(0.0, "trouble", {**one, "owner": "b.1"}) for one in troubles]
    return play(story(cluster(replicas="ab", nodes=1), late, fills, steps, heal_at=150), prepare=prepare)


def dies(world: World) -> None:
    world.operators["a"].crash()


def leaves(world: World) -> None:
    world.loop.create_task(world.operators["a"].shut())


SLOW = {"what": "nodes", "method": "GET", "how": "hold", "seconds": 20.0}


@pytest.mark.parametrize(("end", "troubles"), [(dies, ()), (leaves, ()), (leaves, (SLOW,))])
def test_a_successor_that_hears_late_of_what_was_bound_lists_it_before_it_decides(
    end: Callable[[World], None], troubles: tuple[dict[str, object], ...]
):
    """Also one whose first list was under way when the lease was given up, so that it has it at its first try."""
    outcome = behind(end, *troubles)
    assert outcome.violations == []
    binds = bound(outcome)
    assert binds["first-0"][1] == "a.1"
    assert binds["late-0"][1] == ("b.1" if end is leaves else binds["late-0"][1])
    assert binds["late-0"][0] > 80.0  # when the first has ended


def test_a_successor_that_cannot_list_what_was_bound_gives_the_lease_to_one_that_can():
    """Lists of pods fail for it alone; the process that has died is back long before that has gone on for too long."""

    def fails(world: World) -> None:
        dies(world)
        refused = {"what": "pods", "method": "GET", "how": "refuse", "code": 500, "times": 10_000, "owner": "b.1"}
        world.loop.create_task(world.do("trouble", refused))

    outcome = behind(fails)
    assert outcome.violations == []
    binds = bound(outcome)
    assert binds["late-0"][1] != "b.1"
    assert binds["late-0"][0] < 150.0  # while it still fails


def test_only_a_leader_whom_nobody_can_have_been_before_lists_once():
    """The first one finds no lease; the second finds one that was given up, and the third one that has to run out."""
    listed: list[str] = []

    def prepare(world: World) -> None:
        def look(sent: Sent) -> None:
            if sent.what == "pods" and sent.method == "GET" and sent.query.get("limit") != "1":
                listed.append(sent.owner)

        async def end() -> None:
            one = world.operators["a"]
            await one.shut()
            one._wanted = True

        world.network.sending.append(look)
        world.loop.call_at(5.0, lambda: world.loop.create_task(end()))

    steps = [Step(15.0, "start", {"replica": "a"}), Step(20.0, "crash", {"replica": "a"})]
    outcome = play(story(cluster(), gang("g", 2, queue="q1"), steps, heal_at=60), prepare=prepare)
    assert outcome.violations == []
    assert [listed.count(one) for one in ("a.1", "a.2", "a.3")] == [2, 1, 2]
