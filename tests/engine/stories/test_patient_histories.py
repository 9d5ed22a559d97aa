"""Random histories of work that waits for better: gangs stay whole, nobody waits beyond his bound, restarts or not."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.world import World
from tutti.engine.records.explanation import PATIENT

KIND, RACK = "example.com/kind", "example.com/rack"
WAIT, LEVELS = 20, 2
SECONDS = {"scheduling.tutti.dev/expected-seconds-by-flavor": "fast=60,slow=150"}
SAVES = 90
PROFILE = {
    "interference": {"apart": [["serving", "loading"]], "slowdowns": [{"of": "loading", "beside": "loading", "percent": 10}],
                     "maxSlowdownPercent": 40},
    "dataLocality": {"levels": [RACK], "waitSeconds": WAIT},
}  # fmt: skip
gangs = st.tuples(
    st.integers(1, 4),  # members
    st.sampled_from(["", "serving", "loading"]),
    st.booleans(),  # reads data
    st.booleans(),  # says its seconds
)
steps = st.lists(
    st.one_of(
        gangs.map(lambda one: ("gang", one)),
        st.integers(1, 45).map(lambda seconds: ("pass", seconds)),
        st.just(("restart", None)),
        st.integers(0, 7).map(lambda which: ("finish", which)),
        st.integers(0, 7).map(lambda which: ("delete", which)),
    ),
    min_size=3,
    max_size=12,
)


def world() -> World:
    found = World(profiles=[PROFILE])
    for number, kind in enumerate(["fast", "fast", "slow", "slow"]):
        labels = {KIND: kind, RACK: f"r{number % 2}", **({"fluid.io/s-default-images": "true"} if number == 0 else {})}
        found.node(f"n{number}", gpus=2, labels=labels)
    for kind in ("fast", "slow"):
        found.flavor(kind, nodeLabels={KIND: kind})
    spec: dict[str, Any] = {"flavorFungibility": {"preference": "EarliestFinish"}}
    found.queue("cq", 4, flavors=("slow", "fast"), local="q1", **spec)
    return found


@given(steps)
@example([("gang", (1, "", False, of > 0)) for of in range(3)] + [("gang", (3, "", False, True))])
@examples(20)
def test_nobody_waits_beyond_his_bound_and_gangs_stay_whole(history: list[tuple[str, Any]]):
    found, made = world(), list[str]()
    since: dict[str, float] = {}

    def look() -> None:
        for name in made:
            live = [pod for key, pod in found.pods.items() if key[1].startswith(f"{name}-")]
            assert len({bool(pod.spec.node_name) for pod in live}) <= 1, f"{name} runs in part"
            why = found.why("PodGroup", name)
            if why is not None and why.reason in PATIENT:
                since.setdefault(name, found.now)
                longest = WAIT * LEVELS + SAVES
                assert found.now - since[name] <= longest, f"{name} waits for better since {since[name]}"

    for what, of in history:
        if what == "gang":
            size, behaviour, reads, says = of
            labels = {"scheduling.tutti.dev/behaviour": behaviour} if behaviour else {}
            labels |= {"scheduling.tutti.dev/dataset": "images"} if reads else {}
            name = f"g{len(made)}"
            made.append(name)
            found.gang(name, size, queue="q1", labels=labels, annotations=SECONDS if says else {})
        elif what == "pass":
            found.until(of)
        elif what == "restart":
            found.restart()
        elif what == "finish" and of < len(made):
            running = [key[1] for key, pod in found.pods.items() if pod.spec.node_name and key[1].startswith(f"g{of}-")]
            found.finish(*running)
        elif what == "delete" and of < len(made):
            found.delete(*[key[1] for key in list(found.pods) if key[1].startswith(f"g{of}-")])
        found.run()
        look()
    for _ in range(len(made) + 1):  # each time all that run end, until nobody is left
        found.until(WAIT * LEVELS + SAVES + 1)
        look()
        found.finish(
            *[key[1] for key, pod in found.pods.items() if pod.spec.node_name and pod.status.phase != "Succeeded"]
        )
        found.run()
    waiting = {key[1].partition("-")[0] for key, pod in found.pods.items() if not pod.spec.node_name}
    assert not waiting, f"{waiting} never started"
    assert found.replay().differences == []
