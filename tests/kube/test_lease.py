"""Two processes never lead at once, and a leader knows in time that it is none any more."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from tests.kube.leases import Clock, Leases, kept_lease
from tutti.kube.fencing import LeadershipLost, LeaseTerm
from tutti.kube.lease import Elector, LeaseTimes, lasting_clock


@pytest.fixture
async def scene(serve, kube):
    return await kept_lease(serve, kube)


async def test_the_first_candidate_leads_and_the_second_waits(scene):
    leases, _clock, elector = scene
    first, second = elector("one"), elector("two")
    assert await first.try_acquire()
    first.check()
    assert leases.spec["holderIdentity"] == "one"
    assert (leases.spec["leaseDurationSeconds"], leases.spec["leaseTransitions"]) == (15, 0)
    assert not await second.try_acquire()
    with pytest.raises(LeadershipLost, match="two does not hold lease tutti-system/tutti"):
        second.check()


async def test_a_silent_leader_gives_up_before_another_takes_over(scene):
    leases, clock, elector = scene
    first, second = elector("one"), elector("two")
    assert await first.try_acquire()
    assert not await second.try_acquire()
    clock.now += 9.9
    first.check()
    clock.now += 0.1
    with pytest.raises(LeadershipLost):
        first.check()
    clock.now += 4.9
    assert not await second.try_acquire()
    clock.now += 0.1
    assert await second.try_acquire()
    assert (leases.spec["holderIdentity"], leases.spec["leaseTransitions"]) == ("two", 1)


async def test_what_is_sent_last_is_over_before_another_takes_over(scene):
    """Of the 5 s between its last moment and the end of its lease, half are for the way."""
    _leases, clock, elector = scene
    first = elector("one")
    assert await first.try_acquire()
    assert first.check() == 12.5
    clock.now += 9.5
    assert first.check() == 3.0


async def test_a_term_is_told_by_the_lease_and_how_often_it_has_changed_hands(scene):
    _leases, clock, elector = scene
    first, second = elector("one"), elector("two")
    assert first.term is None
    assert await first.try_acquire()
    assert first.term == LeaseTerm("uid-lease", 0)
    await first.renew()
    assert first.term == LeaseTerm("uid-lease", 0)
    await first.end(under_way=False)
    assert first.term is None
    assert await second.try_acquire()
    assert not await first.try_acquire()
    clock.now += 15.0
    assert await first.try_acquire()
    assert (second.term, first.term) == (LeaseTerm("uid-lease", 1), LeaseTerm("uid-lease", 2))


async def test_expiry_counts_from_when_this_candidate_saw_the_record_change(scene):
    leases, clock, elector = scene
    first, second = elector("one"), elector("two")
    assert await first.try_acquire()
    leases.spec["renewTime"] = "1999-01-01T00:00:00.000000Z"  # a host with a clock that is far off
    assert not await second.try_acquire()
    for _ in range(4):
        clock.now += 8
        await first.renew()
        assert not await second.try_acquire()
    clock.now += 14
    assert not await second.try_acquire()
    clock.now += 1
    assert await second.try_acquire()


async def test_a_deposed_leader_learns_it_at_its_next_renewal(scene):
    _leases, _clock, elector = scene
    other_clock = Clock()
    first, second = elector("one"), elector("two", other_clock)
    assert await first.try_acquire()
    assert not await second.try_acquire()
    other_clock.now += 15
    assert await second.try_acquire()
    await first.renew()  # the write is refused; who holds it now is read next
    with pytest.raises(LeadershipLost, match="another has taken it"):
        await first.renew()
    with pytest.raises(LeadershipLost):
        first.check()
    second.check()


async def test_a_release_lets_the_next_lead_at_once(scene):
    leases, _clock, elector = scene
    first, second = elector("one"), elector("two")
    assert await first.try_acquire()
    await first.end(under_way=False)
    assert leases.spec["holderIdentity"] == ""
    with pytest.raises(LeadershipLost):
        first.check()
    assert await second.try_acquire()
    assert leases.spec["leaseTransitions"] == 1


async def test_with_something_under_way_the_next_leads_when_the_lease_has_run_out(scene):
    leases, clock, elector = scene
    first, second = elector("one"), elector("two")
    assert await first.try_acquire()
    await first.end(under_way=True)
    assert leases.spec["holderIdentity"] == "one"
    with pytest.raises(LeadershipLost):
        first.check()
    assert not await second.try_acquire()
    clock.now += 15.0
    assert await second.try_acquire()


async def test_a_candidate_that_never_led_releases_nothing(scene):
    leases, _clock, elector = scene
    assert await elector("one").try_acquire()
    await elector("two").end(under_way=False)
    assert leases.spec["holderIdentity"] == "one"


async def released(leases, clock, first):
    await first.end(under_way=False)


async def expired(leases, clock, first):
    clock.now += 15.0


async def deleted(leases, clock, first):
    leases.document = None


async def nothing(leases, clock, first):
    """Nobody leads."""


@pytest.mark.parametrize(
    ("before", "since", "alone"),
    [
        (released, nothing, True),
        (released, released, False),
        (released, expired, False),
        (expired, nothing, False),
        (nothing, released, False),
        (nothing, deleted, False),
        (nothing, nothing, False),
        (deleted, nothing, False),
    ],
)
async def test_a_leader_knows_whether_another_may_have_led_since_it_looked(scene, before, since, alone):
    leases, clock, elector = scene
    former, candidate = elector("one"), elector("two")
    if before is not nothing:
        assert await former.try_acquire()
        await before(leases, clock, former)
    await candidate.look()
    if since is not nothing:
        assert await former.try_acquire()
        await since(leases, clock, former)
    while not await candidate.try_acquire():
        clock.now += 15.0
    assert candidate.alone is alone


async def test_who_could_not_look_does_not_know_that_nobody_has_led(scene):
    leases, _clock, elector = scene
    candidate = elector("one")
    leases.down = True
    await candidate.look()
    leases.down = False
    assert await candidate.try_acquire()
    assert not candidate.alone


async def test_who_looks_counts_from_then_on_how_long_a_leader_is_silent(scene):
    _leases, clock, elector = scene
    former, candidate = elector("one"), elector("two")
    assert await former.try_acquire()
    await candidate.look()
    clock.now += 15.0
    assert await candidate.try_acquire()


async def test_two_processes_of_one_name_do_not_both_lead(scene):
    leases, clock, elector = scene
    first, twin = elector("same"), elector("same")
    assert await first.try_acquire()
    assert not await twin.try_acquire()
    clock.now += 15
    assert await twin.try_acquire()
    assert leases.spec["leaseTransitions"] == 0
    with pytest.raises(LeadershipLost):
        await first.renew()


@pytest.mark.parametrize("existing", [False, True])
async def test_an_acquisition_whose_answer_was_lost_is_recognised(scene, existing):
    leases, clock, elector = scene
    if existing:
        before = elector("before")
        assert await before.try_acquire()
        await before.end(under_way=False)
    # The HTTP library repeats a PUT whose connection died, so an answer is lost for good only the second time.
    leases.faults = ["lost", "lost"]
    one = elector("one")
    assert not await one.try_acquire()
    clock.now += 4
    leases.faults.clear()
    assert await one.try_acquire()
    clock.now += 5.9
    one.check()
    clock.now += 0.1
    with pytest.raises(LeadershipLost):
        one.check()  # counted from the sending, not from when it was found


async def test_a_late_discovery_of_an_own_record_is_renewed_and_not_waited_for(scene):
    leases, clock, elector = scene
    leases.faults = ["lost"]
    one = elector("one")
    assert not await one.try_acquire()
    clock.now += 12
    assert await one.try_acquire()
    one.check()


async def test_a_candidate_says_how_it_stands(scene):
    leases, clock, elector = scene
    one, two = elector("one"), elector("two")
    said = [one.told]
    assert await one.try_acquire()
    assert not await two.try_acquire()
    clock.now += 3
    said += [one.told, two.told]
    leases.down = True
    await one.renew()
    await two.try_acquire()
    said += [one.told, two.told]
    assert (one.doubted, two.doubted) == (False, False)
    clock.now += 9
    await one.renew()
    said += [one.told]
    assert (one.doubted, two.doubted) == (True, False)
    leases.down = False
    await one.renew()
    said += [one.told]
    assert not one.doubted
    assert said == [
        "does not lead yet",
        "leads; the lease was renewed 3 s ago",
        "stands by: held by one",
        "the lease could not be renewed for 3 s: 503 ServiceUnavailable: ",
        "stands by: 503 ServiceUnavailable: ",
        "the lease could not be renewed for 12 s: 503 ServiceUnavailable: ",
        "leads; the lease was renewed 0 s ago",
    ]


async def test_a_deleted_lease_ends_leadership(scene):
    leases, _clock, elector = scene
    one = elector("one")
    assert await one.try_acquire()
    leases.document = None
    with pytest.raises(LeadershipLost, match="it was deleted"):
        await one.renew()


@pytest.mark.parametrize("kept", [True, False], ids=["an older record", "no record"])
async def test_a_candidate_that_sees_the_server_go_back_in_time_does_not_lead(scene, kept):
    """It was restored from a backup: what else is known here is of a history that is no more."""
    leases, clock, elector = scene
    first, second = elector("one"), elector("two")
    backup = leases.back_up()
    if kept:
        assert await first.try_acquire()
        backup = leases.back_up()
    assert await first.try_acquire()
    await first.renew()
    assert not await second.try_acquire()

    leases.restore(backup)

    with pytest.raises(LeadershipLost, match="restored from a backup"):
        await second.try_acquire()
    with pytest.raises(LeadershipLost):
        second.check()
    await second.end(under_way=False)
    clock.now += 15.0
    third = elector("three")
    assert not await third.try_acquire()
    clock.now += 15.0
    assert await third.try_acquire()


async def test_a_leader_ends_with_the_history_that_it_led_in(scene):
    leases, clock, elector = scene
    one = elector("one")
    assert await one.try_acquire()
    backup = leases.back_up()
    await one.renew()
    leases.restore(backup)
    clock.now += 10.0  # late, it reads before it writes
    with pytest.raises(LeadershipLost, match="restored from a backup"):
        await one.renew()
    await one.end(under_way=False)
    assert leases.spec["holderIdentity"] == "one"


async def test_fields_of_others_survive_and_their_edits_do_not_depose(scene):
    leases, _clock, elector = scene
    one = elector("one")
    assert await one.try_acquire()
    leases.store({**leases.document, "metadata": {**leases.document["metadata"], "labels": {"team": "a"}}})
    leases.spec["strategy"] = "OldestEmulationVersion"
    await one.renew()
    await one.renew()
    assert leases.document["metadata"]["labels"] == {"team": "a"}
    assert leases.spec["strategy"] == "OldestEmulationVersion"
    one.check()


async def test_a_lease_is_held_by_renewing_it_until_it_is_lost(serve, kube):
    leases = Leases(kube)
    server = await serve(leases.handle)
    times = LeaseTimes(lease_seconds=60, renew_seconds=30, retry_seconds=0.001)
    one = Elector(server.client, namespace="n", name="l", identity="one", times=times)
    await one.acquire()
    leases.faults = ["", "refused", "", "lost", "lost", "", "deleted"]
    with pytest.raises(LeadershipLost, match="it was deleted"):
        await one.hold()
    assert leases.faults == []
    assert leases.version >= 4


@pytest.mark.parametrize("times", [(10, 10.0, 2.0), (15, 2.0, 2.0), (15, 10.0, 0.0)])
def test_times_that_leave_no_margin_are_refused(times):
    with pytest.raises(ValueError, match="each must be longer than the next"):
        LeaseTimes(*times)


async def test_a_process_that_is_stuck_renews_nothing_and_goes_on_when_it_is_not(serve, kube):
    leases = Leases(kube)
    server = await serve(leases.handle)
    acts, asked = [True, False, False, False, True, True], []

    def is_acting():
        asked.append(leases.version)
        return acts.pop(0) if acts else True

    times = LeaseTimes(lease_seconds=60, renew_seconds=30, retry_seconds=0.001)
    one = Elector(server.client, namespace="n", name="l", identity="one", times=times, acts=is_acting)
    await one.acquire()
    leases.faults = ["", "", "", "deleted"]
    with pytest.raises(LeadershipLost, match="it was deleted"):
        await one.hold()
    assert asked[1] == asked[2] == asked[3] == asked[4]
    assert asked[5] > asked[4]


@pytest.mark.parametrize(
    ("has", "asked"),
    [
        ({"CLOCK_BOOTTIME": 7, "CLOCK_MONOTONIC": 1}, 7),  # Linux
        ({"CLOCK_MONOTONIC": 6}, 6),  # macOS
    ],
)
def test_the_clock_that_goes_on_while_the_machine_is_suspended_is_asked(has, asked):
    assert lasting_clock(SimpleNamespace(**has, clock_gettime=lambda which: 100.0 + which))() == 100.0 + asked


def test_where_clocks_have_no_names_there_is_one_that_goes_on():
    """On Windows."""
    assert lasting_clock(SimpleNamespace(monotonic=time.monotonic)) is time.monotonic


async def test_the_server_is_asked_who_leads_where_a_clock_stood_still(scene):
    """As that of a machine which a hypervisor has stopped: by its own clock its leader has time left."""
    _leases, clock, elector = scene
    stopped = Clock()
    one, two = elector("one", stopped), elector("two", clock)
    assert await one.try_acquire()
    await one.confirm()
    assert not await two.try_acquire()
    clock.now += 100
    assert await two.try_acquire()
    assert one.check() > 0
    with pytest.raises(LeadershipLost, match="another has taken it"):
        await one.confirm()
    with pytest.raises(LeadershipLost):
        one.check()


async def test_a_lease_that_was_deleted_is_confirmed_by_nobody(scene):
    leases, _clock, elector = scene
    one = elector("one")
    assert await one.try_acquire()
    leases.document = None
    with pytest.raises(LeadershipLost):
        await one.confirm()


async def test_one_question_does_for_all_who_waited_for_it_to_be_asked(serve, kube):
    leases = Leases(kube)
    server = await serve(leases.handle)
    one = Elector(server.client, namespace="n", name="l", identity="one")
    assert await one.try_acquire()
    before = len(server.sent("GET"))
    await asyncio.gather(*(one.confirm() for _ in range(20)))
    assert len(server.sent("GET")) - before == 2  # those who came while one was asked were told by the next
