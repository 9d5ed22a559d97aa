"""What runs stays charged whatever its tenant writes, before and after every restart.

A tenant may edit every label and annotation of his pods, and change or delete his PodGroups, also while no operator
runs; LocalQueues come and go. He cannot write the status of a pod, where the admission is kept.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.world import GPU, World, replaced
from tutti.api.core import PodCondition
from tutti.engine.records.decisions import KeepAdmission
from tutti.engine.records.pod_admission import ADMISSION_ANNOTATION, ADMITTED_CONDITION

QUEUE_LABEL = "scheduling.tutti.dev/queue-name"
GROUP_LABEL = "scheduling.tutti.dev/pod-group"


def begin() -> World:
    """Two queues that one namespace reaches, one of another namespace, and nodes of two flavors."""
    world = World(namespaces=("default", "elsewhere"))
    for flavor in "ab":
        world.flavor(flavor, nodeLabels={"kind": flavor})
        world.node(f"n{flavor}", gpus=6, labels={"kind": flavor})
    world.queue("cq1", 4, flavors=("a", "b"), local="one")
    world.queue("cq2", 4, flavors=("b", "a"), local="two")
    world.queue("theirs", 8, flavors=("a", "b"), local="one", namespace="elsewhere")
    world.run()
    return world


def usage(world: World) -> dict[tuple[str, str, str], int]:
    """What each queue uses of each flavor and resource."""
    ledger = world.engine.state.ledger
    return {(queue, *what): n for queue in ledger.queues() for what, n in sorted(ledger.used(queue).items()) if n}


def write(world: World, name: str, labels: dict[str, str], annotations: dict[str, str], *, seen: bool) -> None:
    pod = world.pods["default", name]
    meta = replaced(pod.metadata, labels=labels, annotations=annotations)
    world.pods["default", name] = replaced(pod, metadata=meta)
    if seen:
        world.put(world.pods["default", name])


ANNOTATIONS: list[str | None] = [
    None,
    "",
    "{",
    json.dumps({"clusterQueue": "cq1", "flavors": {}}),
    json.dumps({"clusterQueue": "cq2", "flavors": {GPU: "a"}}),
    json.dumps({"clusterQueue": "cq2", "flavors": {GPU: "b", "cpu": "none"}}),
    json.dumps({"clusterQueue": "theirs", "flavors": {GPU: "a"}}),
    json.dumps({"clusterQueue": "none", "flavors": {GPU: "a"}}),
]


def edit_pod(world: World, which: int, queue: str | None, annotation: int, *, seen: bool) -> None:
    """Labels of a pod that runs are taken off or name another queue, and its admission annotation is written over."""
    names = sorted(world.where())
    if not names:
        return
    pod = world.pods["default", names[which % len(names)]]
    labels = {key: value for key, value in pod.metadata.labels.items() if key != QUEUE_LABEL}
    text = ANNOTATIONS[annotation]
    annotations = {} if text is None else {ADMISSION_ANNOTATION: text}
    write(world, pod.metadata.name, {**labels, **({QUEUE_LABEL: queue} if queue else {})}, annotations, seen=seen)


def edit_group(world: World, which: int, how: str, *, seen: bool) -> None:
    """A PodGroup of which pods run loses its queue, or is deleted; where nobody looks, before the next start."""
    running = {pod.metadata.labels.get(GROUP_LABEL) for pod in world.pods.values() if pod.spec.node_name}
    keys = [key for key in sorted(world.objects) if key[0] == "PodGroup" and key[2] in running]
    if not keys:
        return
    key = keys[which % len(keys)]
    before = world.objects[key]
    spec = {**before["spec"], "queueName": "" if how == "clear" else "two"}
    if seen and how == "delete":
        world.remove_object("PodGroup", key[2])
    elif seen:
        world.object("PodGroup", key[2], spec)
    elif how == "delete":
        del world.objects[key]
    else:
        world.objects[key] = {**before, "spec": spec}


def local_queue(world: World, name: str, of: str, *, seen: bool) -> None:
    """A LocalQueue is deleted, and perhaps made anew with another ClusterQueue."""
    key = ("LocalQueue", "default", name)
    if key in world.objects and seen:
        world.remove_object("LocalQueue", name)
    world.objects.pop(key, None)
    if of and seen:
        world.object("LocalQueue", name, {"clusterQueue": of})


LOCAL, WHICH = st.sampled_from(["one", "two"]), st.integers(0, 9)
EDITS = st.one_of(
    st.tuples(st.just(edit_pod), WHICH, st.sampled_from([None, "one", "two"]), st.integers(0, len(ANNOTATIONS) - 1)),
    st.tuples(st.just(edit_group), WHICH, st.sampled_from(["clear", "other", "delete"])),
    st.tuples(st.just(local_queue), LOCAL, st.sampled_from(["", "cq1", "cq2"])),
)
WORK = st.one_of(
    st.tuples(st.just("pod"), LOCAL, st.integers(1, 2)),
    st.tuples(st.just("gang"), LOCAL, st.integers(1, 2)),
    st.tuples(st.just("free"), st.just(""), st.just(1)),
)


def submit(world: World, kind: str, queue: str, gpus: int, number: int) -> None:
    """Somebody's work comes: a pod in a queue, a gang in a queue, or a pod without one."""
    if kind == "gang":
        world.pod_group(f"g{number}", 2, queueName=queue)
        for rank in range(2):
            world.pod(f"g{number}-{rank}", group=f"g{number}", gpus=gpus)
    else:
        world.pod(f"{kind}{number}", queue=queue, gpus=gpus)


@examples(50)
@given(st.lists(WORK, min_size=1, max_size=5), st.lists(st.tuples(EDITS, st.booleans(), st.booleans()), max_size=8))
def test_usage_after_a_restart_at_any_moment_equals_usage_before(work, edits):
    world = begin()
    for number, one in enumerate(work):
        submit(world, *one, number)
        world.run()
    world.until(1.0)
    for pod in list(world.pods):  # what waits may come to be admitted when queues change; this is about what runs
        if not world.pods[pod].spec.node_name:
            world.delete(pod[1])
    world.run()
    before = usage(world)
    charged = sum(amount for (_, _, resource), amount in before.items() if resource == GPU)
    for (step, *how), seen, restarts in edits:
        step(world, *how, seen=seen)
        if restarts or not seen:
            world.restart(backwards=restarts)
        world.run()
        free = {name for name in world.where() if name.startswith("free")}
        mine = usage(world)
        assert _less(world, mine, free) == before, (step.__name__, how)
    assert charged == sum(n for (_, _, resource), n in before.items() if resource == GPU)


def _less(world: World, used: dict[Any, int], names: set[str]) -> dict[Any, int]:
    """Usage without that of some pods: one that was in no queue and is given one by its tenant is counted there."""
    out = dict(used)
    for name in names:
        charge = world.engine.state.members["default", name].charge
        for what, amount in charge.usage.items() if charge is not None else ():
            out[charge.queue, *what] -= amount
    return {key: n for key, n in out.items() if n}


@pytest.mark.parametrize("seen", [True, False], ids=["while it runs", "while it is down"])
def test_whatever_a_tenant_takes_off_his_pods_frees_no_quota(seen):
    world = begin()
    for rank in range(4):
        world.pod(f"p{rank}", queue="one")
    world.run()
    before = usage(world)
    assert before["cq1", "a", GPU] == 4
    for rank in range(4):
        write(world, f"p{rank}", {}, {}, seen=seen)
    world.restart()
    world.run()
    assert usage(world) == before
    world.pod("more", queue="one", gpus=4, selector={"kind": "a"})
    world.run()
    assert not world.where("more")


def test_an_admission_is_kept_once_and_of_charged_pods_only():
    world = begin()
    world.pod("p", queue="one")
    world.pod("free")
    world.run()
    (kept,) = [one for one in world.log if isinstance(one, KeepAdmission)]
    assert (kept.name, json.loads(kept.admission)["clusterQueue"]) == ("p", "cq1")
    world.restart()
    assert not [one for one in world.run() if isinstance(one, KeepAdmission)]


def test_pods_of_a_time_when_nothing_was_kept_have_it_written_by_the_next_process():
    world = begin()
    world.pod("p", queue="one")
    world.run()
    pod = world.pods["default", "p"]
    world.pods["default", "p"] = replaced(pod, status=replaced(pod.status, conditions=[]))
    world.restart()
    world.run()
    assert any(one.type == ADMITTED_CONDITION for one in world.pods["default", "p"].status.conditions)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"clusterQueue": 1}'])
def test_a_kept_admission_that_cannot_be_read_leaves_the_pod_to_tell(text):
    world = begin()
    world.pod("p", queue="one")
    world.run()
    before = usage(world)
    pod = world.pods["default", "p"]
    spoilt = PodCondition(ADMITTED_CONDITION, "True", "Admitted", text)
    world.pods["default", "p"] = replaced(pod, status=replaced(pod.status, conditions=[spoilt]))
    world.restart()
    world.run()
    assert usage(world) == before
