"""A leader that could not renew its lease in time: it writes nothing until it can, and goes on where nobody else has led."""

import asyncio

import pytest
import structlog

from tests.kube.leases import Leases, kept_lease
from tutti.kube.fencing import LeadershipDoubted, LeadershipLost, granted
from tutti.kube.lease import Elector, LeaseTimes


@pytest.fixture
async def scene(serve, kube):
    return await kept_lease(serve, kube)


@pytest.mark.parametrize("fault", ["lost", "refused"])
async def test_a_failed_renewal_is_made_up_for_while_time_is_left(scene, fault):
    leases, clock, elector = scene
    one = elector("one")
    assert await one.try_acquire()
    clock.now += 2
    leases.faults = [fault, fault]
    await one.renew()
    leases.faults.clear()
    clock.now += 2
    await one.renew()
    clock.now += 9
    one.check()


async def test_a_leader_that_cannot_renew_in_time_writes_nothing_until_it_can_and_goes_on(scene):
    leases, clock, elector = scene
    one = elector("one")
    assert await one.try_acquire()
    term = one.term
    leases.down = True
    with structlog.testing.capture_logs() as said:
        for _ in range(30):
            clock.now += 2
            await one.renew()
        with pytest.raises(LeadershipDoubted):
            one.check()
        assert one._client.metrics.leader._value.get() == 0
        leases.down = False
        await one.renew()
    assert one.check() == 12.5
    assert one._client.metrics.leader._value.get() == 1
    assert (one.term, leases.spec["leaseTransitions"]) == (term, 0)
    told = [line["event"] for line in said if line["log_level"] != "debug"]
    assert told == ["lease_not_renewed", "leadership_doubted", "lease_renewed_late"]


@pytest.mark.parametrize("how", ["the server is away", "it is stopped"])
async def test_time_in_which_the_lease_could_not_be_renewed_is_lost(scene, how):
    leases, clock, elector = scene
    one = elector("one")
    assert await one.try_acquire()
    for away in (20, 8, 2):
        for _ in range(3):
            clock.now += 2
            await one.renew()
        leases.down = how == "the server is away"
        for _ in range(away // 2):
            clock.now += 2
            if leases.down:
                await one.renew()
        leases.down = False
        clock.now += 2
        await one.renew()
    assert one.lost_seconds == 28  # while the server is only slow, nothing is


async def away_for_longer_than_a_lease(scene):
    """Return a leader, who has stood by and asked in vain, and the clock, when the server is back."""
    leases, clock, elector = scene
    one, two = elector("one"), elector("two")
    assert await one.try_acquire()
    assert not await two.try_acquire()
    leases.down = True
    for _ in range(10):
        clock.now += 2
        await one.renew()
        assert not await two.try_acquire()
    leases.down = False
    return one, two, clock


async def test_when_the_server_is_back_the_leader_goes_first_and_goes_on(scene):
    """Nobody could have renewed meanwhile: that it did not says nothing about it."""
    one, two, clock = await away_for_longer_than_a_lease(scene)
    assert not await two.try_acquire()
    clock.now += 2
    assert not await two.try_acquire()
    await one.renew()
    clock.now += 2
    assert not await two.try_acquire()
    one.check()


@pytest.mark.parametrize("fails_again", [False, True])
async def test_a_leader_that_does_not_come_back_with_the_server_is_waited_for_once_and_not_for_long(scene, fails_again):
    leases, *_ = scene
    one, two, clock = await away_for_longer_than_a_lease(scene)
    assert not await two.try_acquire()
    clock.now += 2
    leases.down = fails_again
    assert not await two.try_acquire()
    leases.down = False
    clock.now += 2
    assert await two.try_acquire()
    with pytest.raises(LeadershipLost, match="another has taken it"):
        await one.renew()


@pytest.mark.parametrize("verb", ["renew", "try_acquire"])
async def test_a_lease_that_can_be_had_again_tells_that_the_server_is_back(scene, verb):
    leases, _clock, elector = scene
    one, two = elector("one"), elector("two")
    assert await one.try_acquire()
    asked = one.renew if verb == "renew" else two.try_acquire
    leases.down = True
    await asked()
    waiting = asyncio.create_task(one._client.recovery.wait(3600))
    await asyncio.sleep(0)
    leases.down = False
    await asked()
    await asyncio.wait_for(waiting, 60)


async def test_what_the_server_is_asked_for_is_over_when_nobody_waits_for_it_any_longer(serve, kube):
    leases = Leases(kube)
    server = await serve(leases.handle)
    one = Elector(server.client, namespace="n", name="l", identity="one")
    assert await one.try_acquire()
    await one.renew()
    writes = [call for call in server.calls if call.method != "GET"]
    assert [(call.method, call.query) for call in writes] == [
        ("POST", {"timeout": "5000ms"}),
        ("PUT", {"timeout": "5000ms"}),
    ]


@pytest.mark.parametrize("hanging", [1, 3])
async def test_a_question_that_the_server_never_answers_is_asked_again_beside_it(serve, kube, hanging):
    """As kube-apiserver does with what it has sent to an etcd that was away."""
    leases = Leases(kube)
    left = [hanging]

    async def handle(request):
        if request.method == "GET" and left[0]:
            left[0] -= 1
            await asyncio.Event().wait()
        return await leases.handle(request)

    server = await serve(handle)
    times = LeaseTimes(lease_seconds=3600, renew_seconds=3000, retry_seconds=0.01)
    one = Elector(server.client, namespace="n", name="l", identity="one", times=times)
    async with asyncio.timeout(60):
        assert await one.try_acquire()


async def test_a_leader_that_was_stopped_goes_on_where_nobody_has_taken_its_lease(scene):
    leases, clock, elector = scene
    one, two = elector("one"), elector("two")
    assert await one.try_acquire()
    term = one.term
    clock.now += 100
    writes = [asyncio.create_task(granted(one.check)) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(LeadershipDoubted):
        one.check()
    assert not await two.try_acquire()  # it sees the lease only now
    await one.renew()
    assert await asyncio.gather(*writes) == [12.5] * 3
    assert (one.term, leases.spec["holderIdentity"], leases.spec["leaseTransitions"]) == (term, "one", 0)


async def test_a_renewal_sent_in_time_and_answered_after_it_settles_the_doubt_in_between(scene):
    leases, clock, elector = scene
    one = elector("one")
    assert await one.try_acquire()
    clock.now += 9
    writes = []

    async def time_passes():
        clock.now += 2
        writes.append(asyncio.create_task(granted(one.check)))
        await asyncio.sleep(0)
        return not one.leading

    leases.before_write.append(time_passes)
    await one.renew()
    assert one.leading
    assert await asyncio.wait_for(writes[0], 60) == 10.5


@pytest.mark.parametrize("fault", ["taken", "taken meanwhile", "deleted", "away and taken"])
async def test_a_leader_that_was_stopped_ends_where_it_is_another_that_leads(scene, fault):
    leases, clock, elector = scene
    one, two = elector("one"), elector("two")
    assert await one.try_acquire()
    assert not await two.try_acquire()
    clock.now += 100
    write = asyncio.create_task(granted(one.check))
    await asyncio.sleep(0)
    if fault == "taken":
        assert await two.try_acquire()
    elif fault == "taken meanwhile":
        leases.before_write.append(two.try_acquire)
        await one.renew()  # the write is refused; who holds it now is read next
    elif fault == "deleted":
        leases.document = None
    else:
        leases.down = True
        await one.renew()
        leases.down = False
        assert await two.try_acquire()
    assert not write.done()
    with pytest.raises(LeadershipLost, match="another has taken it"):
        await one.renew()
    with pytest.raises(LeadershipLost):
        await write
    with pytest.raises(LeadershipLost, match="does not hold lease"):
        one.check()


@pytest.mark.parametrize("taken", [False, True])
async def test_who_is_in_doubt_and_told_to_end_gives_back_what_still_is_its_own(scene, taken):
    leases, clock, elector = scene
    one, two = elector("one"), elector("two")
    assert await one.try_acquire()
    assert not await two.try_acquire()
    clock.now += 100
    if taken:
        assert await two.try_acquire()
    await one.end(under_way=False)
    assert leases.spec["holderIdentity"] == ("two" if taken else "")
