"""Times that controllers and kubelets set, on every event loop that the embedded cluster runs on."""

import asyncio
import contextlib
import random

import pytest
import uvloop

from tutti_sim.controllers.worker import Worker
from tutti_sim.hollow.fate import Fate
from tutti_sim.hollow.kubelet import Kubelet, PodRun
from tutti_sim.kinds.builtin import resources
from tutti_sim.kinds.resource import Registry
from tutti_sim.rest.backend import Backend
from tutti_sim.store.collection import Version
from tutti_sim.store.store import Store

PLACE = ("things", ("default", "a"))
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("times", [(0.0, 0.0), (0.0, 0.01), (0.01, 0.0), (-1.0, 0.0), (60.0, 0.0), (0.0, 60.0)])
def test_of_several_times_for_a_place_the_earliest_is_kept(loop, times):
    async def story():
        seen = []
        done = asyncio.Event()

        async def sync(place):
            seen.append(place)
            done.set()

        worker = Worker("test", sync)
        for seconds in times:
            worker.later(seconds, PLACE)
        task = asyncio.create_task(worker.run())
        await asyncio.wait_for(done.wait(), 60)
        worker.later(0.0, PLACE)
        worker.forget(PLACE)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert seen == [PLACE]

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize(("first", "second", "due"), [(0, 0, 0), (0, 30, 0), (30, 0, 0), (60, 30, 30), (30, 60, 30)])
def test_a_pod_stops_at_the_earliest_time_that_it_is_given(loop, first, second, due):
    async def story():
        kubelet = Kubelet(Backend(Store(), Registry(resources()), random.Random(0)))
        taken = PodRun("n", "uid", {}, Fate(0.0, None, 0, hangs=True, stop=0.0, restart=0.0))
        began = asyncio.get_running_loop().time()
        for grace in (first, second):
            meta = {"name": "p", "namespace": "default", "uid": "uid", "deletionGracePeriodSeconds": grace}
            kubelet._plan_stop(Version(("default", "p"), {"metadata": meta}, 1), taken)
        assert taken.stops_at == pytest.approx(began + due, abs=5)
        taken.halt()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())
