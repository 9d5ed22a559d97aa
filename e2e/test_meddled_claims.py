"""The user stories about devices that somebody takes away behind the scheduler's back: claims, and whole drivers.

Whoever meddles plays by hand on real objects; claims are named, so that it takes no control plane to make them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import pytest
from kubernetes.client import ApiException

from e2e.harness.devices import (
    change_status,
    claims,
    come_back,
    make_claim,
    publish,
    published,
    remove_claim,
    taken,
    vanish,
)
from e2e.harness.story import GROUP, Story

READY = "example.com/attached"
OTHERS = [{"apiGroup": "example.com", "resource": "things", "name": "theirs", "uid": "theirs"}]


@pytest.fixture
def api(story: Story) -> Iterator[Any]:
    """What a story makes for the whole cluster goes with it."""
    with published(story) as create:
        yield create
    for claim in claims(story):  # which those have that are no pods goes with nobody
        remove_claim(story, claim["metadata"]["name"])


def gang(story: Story, name: str, size: int, device_class: str) -> None:
    """A gang of which each has a claim of its own, called as the pod."""
    story.object("PodGroup", name, {"schedulingPolicy": {"gang": {"minCount": size}}})
    for rank in range(size):
        make_claim(story, f"{name}-{rank}", device_class)
        entry = {"name": "gpus", "resourceClaimName": f"{name}-{rank}"}
        story.pod(f"{name}-{rank}", labels={f"{GROUP}/pod-group": name}, device_claims=[entry])


def lost(story: Story, pod: str) -> list[str]:
    return [note for reason, note in story.events(pod) if reason == "DeviceClaimLost"]


def times(story: Story, pod: str) -> int:
    """How often the one event says that it was told."""
    found = story.custom.list_namespaced_custom_object("events.k8s.io", "v1", story.namespace, "events")["items"]
    of = [one for one in found if (one["regarding"].get("name"), one["reason"]) == (pod, "DeviceClaimLost")]
    (one,) = of
    return int((one.get("series") or {}).get("count", 1))


def test_who_runs_with_a_claim_that_somebody_changes_or_removes_is_told_and_runs_on(story: Story, api: Any) -> None:
    device_class = publish(story, api)
    story.start_operator()
    gang(story, "train", 4, device_class)
    story.wait(lambda: len(story.where("train")) == 4, "the whole gang to be bound")
    where = story.where("train")

    remove_claim(story, "train-0")
    change_status(story, "train-1", allocation=None, reservedFor=None)
    change_status(story, "train-2", reservedFor=OTHERS)
    said = {"train-0": "does not exist any more", "train-1": "has no devices any more"}
    if not story.cluster.kubelets:  # the claim controller writes who runs on its claim again
        said["train-2"] = "is not reserved for it any more"
    story.wait(lambda: all(lost(story, pod) for pod in said), "those who run to be told of it")

    for pod, text in said.items():
        (note,) = lost(story, pod)
        assert f"ResourceClaim {pod}, with whose devices it runs, {text}" in note
    assert lost(story, "train-3") == []
    assert story.where("train") == where
    story.kill_operator()
    story.start_operator()
    story.wait(lambda: all(times(story, pod) == 2 for pod in said), "the next operator to add to these")
    gang(story, "next", 2, device_class)
    story.wait(lambda: len(story.where("next")) == 2, "the next gang to be bound")


def emptied(story: Story, claim: str, _: str) -> None:
    """Somebody takes a claim its devices."""
    change_status(story, claim, allocation=None, reservedFor=None)


def made_anew(story: Story, claim: str, device_class: str) -> None:
    """Somebody deletes a claim and makes another that is called so."""
    remove_claim(story, claim)
    make_claim(story, claim, device_class)


@pytest.mark.parametrize("killed", [False, True], ids=["", "operator killed meanwhile"])
@pytest.mark.parametrize("meddle", [emptied, made_anew])
def test_a_gang_whose_claim_is_changed_before_it_is_bound_goes_back_and_starts_whole_later(
    story: Story, api: Any, meddle: Callable[[Story, str, str], None], *, killed: bool
) -> None:
    """The driver takes its time to attach devices, so that the whole gang has claims with devices, and is not bound."""
    device_class = publish(story, api, bindingConditions=[READY], bindingFailureConditions=["example.com/broken"])
    story.start_operator()
    gang(story, "train", 3, device_class)
    story.wait(lambda: len(taken(story)) == 3, "all claims to get devices")
    assert story.where("train") == {}

    if killed:
        story.kill_operator()
    meddle(story, "train-1", device_class)
    if killed:
        story.start_operator()
    else:
        story.wait(lambda: gave_up(story), "the reservation to be given back")

    story.wait(lambda: attach(story) and len(story.where("train")) == 3, "the whole gang to be bound")
    devices = taken(story)
    assert len(devices) == len(set(devices)) == 3
    for claim in claims(story):
        name = claim["metadata"]["name"]
        (chosen,) = claim["status"]["allocation"]["devices"]["results"]
        assert chosen["pool"] == story.node_of(name)
        assert [one["name"] for one in claim["status"]["reservedFor"]] == [name]


def gave_up(story: Story) -> bool:
    """Whether it was told that what was reserved is given back."""
    return any(reason == "DeviceAllocationFailed" for reason, _ in story.events("train"))


def attach(story: Story) -> bool:
    """The driver says of all devices that are allocated by now that it has attached them.

    Whether it did: a claim that got other devices since it was read is the next turn's.
    """
    condition = {"type": READY, "status": "True", "reason": "Attached", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    for claim in claims(story):
        status = claim.get("status", {})
        chosen = status.get("allocation", {}).get("devices", {}).get("results", ())
        if chosen and not status.get("devices"):
            of = [{name: one[name] for name in ("driver", "pool", "device")} for one in chosen]
            said = [{**one, "conditions": [condition]} for one in of]
            try:
                change_status(story, claim["metadata"]["name"], claim["metadata"]["resourceVersion"], devices=said)
            except ApiException as problem:
                if problem.status != HTTPStatus.CONFLICT:
                    raise
                return False
    return True


def test_a_driver_that_vanishes_stops_who_waits_and_whoever_runs_runs_on(story: Story, api: Any) -> None:
    device_class = publish(story, api, 1)
    nodes = len(story.cluster.nodes)
    story.start_operator()
    gang(story, "train", nodes, device_class)
    story.wait(lambda: len(story.where("train")) == nodes, "the whole gang to be bound")
    gang(story, "next", 2, device_class)
    story.wait(lambda: story.why("next"), "the next gang to say why it waits")
    where, had = story.where("train"), set(taken(story))

    slices = vanish(story)
    missed = "are published for these nodes"
    story.wait(lambda: missed in story.why("next").get("message", ""), "the driver to be missed")
    told = [note for reason, note in story.events("train-0") if reason == "ResourcePoolInTrouble"]
    assert story.where("train") == where
    assert story.where("next") == {}
    for one in slices:
        one["spec"]["devices"].append({**one["spec"]["devices"][0], "name": "gpu-new"})
    come_back(story, slices)

    story.wait(lambda: len(story.where("next")) == 2, "the next gang to be bound")
    assert story.where("train") == where
    devices = taken(story)
    assert len(devices) == len(set(devices)) == nodes + 2
    assert had < set(devices)
    assert told == []  # nothing is said of what is mended within a minute
