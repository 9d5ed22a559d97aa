"""Gangs of several roles under whatever may happen to them: YuniKorn's, which start early, koordinator's and Volcano's.

After every step there is rest, room and quota are what pods and holds use, and no gang has started before its time; in the
end, with room for all, everybody who may run does, the journal replays, and nothing is left when the pods are gone.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from bench.simulation.recounting import recounted
from tests.drawing import examples
from tests.engine.stories.manifests_of_users import KOORD, annotated, put
from tests.engine.stories.test_yunikorn import PREFIX
from tests.engine.world import World
from tutti.cluster.pods import PodPhase

VOLCANO = "scheduling.volcano.sh/v1beta1"
GPU = {"nvidia.com/gpu": "1"}
GROUPS = [
    {"name": "driver", "minMember": 1, "minResource": GPU},
    {"name": "executor", "minMember": 2, "minResource": GPU},
]
KOORD_GROUPS = '["default/ka", "default/kb"]'


def said(kind: str, role: int) -> str:
    """What a member says of itself: the first role of an application of YuniKorn declares them all."""
    match kind:
        case "yunikorn-soft" | "yunikorn-hard":
            notes = {f"{PREFIX}/app-id": kind, f"{PREFIX}/task-group-name": GROUPS[role]["name"]}
            if role == 0:
                style = kind.removeprefix("yunikorn-").capitalize()
                notes[f"{PREFIX}/task-groups"] = json.dumps(GROUPS)
                notes[f"{PREFIX}/schedulingPolicyParameters"] = (
                    f"placeholderTimeoutInSeconds=20 gangSchedulingStyle={style}"
                )
            return annotated(**notes)
        case "koordinator":
            name = "ka" if role == 0 else "kb"
            least = str(role + 1)
            return annotated(
                **{f"{KOORD}/name": name, f"{KOORD}/min-available": least, f"{KOORD}/groups": KOORD_GROUPS}
            )
        case _:
            task = "ps" if role == 0 else "worker"
            return annotated(**{"scheduling.k8s.io/group-name": "vc", "volcano.sh/task-spec": task})


KINDS = ["yunikorn-soft", "yunikorn-hard", "koordinator", "volcano"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(KINDS), st.integers(0, 1)),
        st.tuples(st.just("add"), st.sampled_from(KINDS), st.integers(0, 1)),
        st.tuples(st.just("add"), st.sampled_from(KINDS), st.integers(0, 1)),
        st.tuples(st.sampled_from(["succeed", "fail", "delete", "begin deleting"]), st.integers(0, 20)),
        st.tuples(st.just("node"), st.sampled_from(["n1", "n2"]), st.integers(0, 4)),
        st.tuples(st.just("lose node"), st.sampled_from(["n1", "n2"])),
        st.tuples(st.just("minimum"), st.integers(0, 4), st.integers(0, 2)),
        st.tuples(st.just("wait"), st.sampled_from([1, 15, 70])),
        st.tuples(st.just("restart"), st.booleans()),
        st.tuples(st.just("binds fail"), st.sampled_from(["Failed", "Gone", "Gated"])),
    ),
    max_size=30,
)


def do(world: World, step: tuple[Any, ...], index: int) -> None:
    names = [name for (_, name), pod in world.pods.items() if not pod.terminated]
    match step:
        case ("add", kind, role):
            put(world, f"{kind}-{role}-{index}", said(kind, role))
        case ("succeed" | "fail" as how, at) if names:
            name = names[at % len(names)]
            if world.pods["default", name].spec.node_name:
                world.finish(name, phase="Succeeded" if how == "succeed" else "Failed")
        case ("delete", at) if names:
            world.delete(names[at % len(names)])
        case ("begin deleting", at) if names:
            world.begin_deleting(names[at % len(names)])
        case ("node", name, gpus):
            world.node(name, gpus=gpus)
        case ("lose node", name) if name in world.nodes:
            world.remove_node(name)
            for (_, pod), found in list(world.pods.items()):
                if found.spec.node_name == name:
                    world.delete(pod)
        case ("minimum", least, ps):
            world.gang_object(VOLCANO, "vc", {"minMember": least, "minTaskMember": {"ps": ps, "worker": 1}})
        case ("wait", seconds):
            world.until(seconds)
        case ("restart", backwards):
            world.restart(backwards=backwards)
        case ("binds fail", outcome):
            world.outcomes = {name: [outcome] for name in names}


def enough(world: World, kind: str) -> bool:
    """Whether a gang has the members that it needs to start, by its project's rules."""
    counts = [0, 0]
    for (_, name), pod in world.pods.items():
        if name.startswith(kind) and pod.status.phase != "Failed" and pod.metadata.deletion_timestamp is None:
            counts[int(name.removeprefix(f"{kind}-")[0])] += 1
    if kind == "koordinator":
        return counts[0] >= 1 and counts[1] >= 2
    if kind == "volcano":
        spec = world.gang_objects[VOLCANO, "PodGroup", "default", "vc"]["spec"]
        least, tasks = spec["minMember"], spec["minTaskMember"]
        by_task = least < sum(tasks.values()) or (counts[0] >= tasks["ps"] and counts[1] >= tasks["worker"])
        return sum(counts) >= least and by_task
    return True  # room is kept for those who are yet to come


def bound(world: World, kind: str) -> bool:
    return any(name.startswith(kind) and pod.spec.node_name for (_, name), pod in world.pods.items())


def check(world: World) -> None:
    state = world.engine.state
    assert (state.cluster.nodes.requested == recounted(state.cluster)).all()
    workloads = list(state.workloads.values())
    for group in (group for workload in workloads for group in workload.groups.values()):
        doing = [member.pod.doing for member in group.members.values()]
        assert group.phases.counts == [doing.count(one) for one in PodPhase]
    for workload in workloads:
        lives = any(not m.pod.terminated for m in workload.members())
        assert lives or not any(group.holds for group in workload.groups.values())
    charged = sum(member.charge is not None for workload in workloads for member in workload.members())
    held = sum(hold.charge is not None for one in workloads for group in one.groups.values() for hold in group.holds)
    assert world.used("cq") == charged + held


@examples(60, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_gangs_of_roles_hold_what_must_hold(steps):
    world = World()
    world.flavor()
    world.queue("cq", 6, local="default")
    world.gang_object(VOLCANO, "vc", {"minMember": 2, "minTaskMember": {"ps": 1, "worker": 1}})
    world.node("n1", gpus=3)
    for index, step in enumerate(steps):
        before = {kind: bound(world, kind) for kind in KINDS}
        do(world, step, index)
        world.run()
        check(world)
        for kind in KINDS:
            assert before[kind] or not bound(world, kind) or enough(world, kind), f"{kind} has started too early"
    for (_, name), pod in list(world.pods.items()):
        if pod.metadata.deletion_timestamp is not None:
            world.delete(name)
    world.outcomes = {}
    for name in ("n1", "n2"):
        world.node(name, gpus=20)
    world.queue("cq", 100, local="default")
    world.until(700)
    check(world)
    given_up = {workload.key[2] for workload in world.engine.state.workloads.values() if workload.given_up}
    for (_, name), pod in world.pods.items():
        kind = next(kind for kind in KINDS if name.startswith(kind))
        may_run = enough(world, kind) and kind not in given_up
        assert pod.spec.node_name or not may_run, f"{name} could run"
    assert not world.replay().differences
    for name in [name for _, name in world.pods]:
        world.delete(name)
    world.run()
    assert world.engine.state.workloads == {}
    assert world.used("cq") == 0
