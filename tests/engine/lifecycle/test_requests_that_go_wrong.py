"""ProvisioningRequests that are lost, deleted, refused or left over, and processes that die beside them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.provisioned import pool, progress, provisioned
from tests.engine.world import World
from tutti.engine.records.decisions import CreateProvisioning, DeleteProvisioning
from tutti.engine.records.provisioning import ProvisioningWritten


def test_a_process_that_dies_after_the_request_was_made_goes_on_with_it():
    world = provisioned()
    (name,) = world.autoscaler.names()
    before = world.status("Workload", "w")
    world.restart()
    world.run()
    after = world.status("Workload", "w")
    assert (after["provisioning"], after["admission"]) == (before["provisioning"], before["admission"])
    assert world.autoscaler.made == [name]
    world.autoscaler.say("Provisioned")
    pool(world, "n1")
    world.restart()
    world.run()
    assert len(world.where()) == 2
    assert world.autoscaler.made == [name]


def test_a_process_that_dies_before_its_status_was_written_makes_the_same_request():
    world = provisioned()
    (name,) = world.autoscaler.names()
    found = world.objects["Workload", "default", "w"]
    world.objects["Workload", "default", "w"] = {**found, "status": {}}
    world.restart()
    world.run()
    assert world.autoscaler.made == [name]
    assert progress(world) == [(["spot"], "Pending", 0)]


def test_a_process_that_dies_before_the_request_was_made_makes_it():
    world = provisioned()
    (name,) = world.autoscaler.names()
    del world.autoscaler.requests["default", name]  # its template is there
    world.restart()
    world.run()
    assert world.autoscaler.made == [name, name]
    assert progress(world) == [(["spot"], "Pending", 0)]


def test_a_request_of_an_earlier_process_is_removed_when_nobody_comes_to_ask_for_it():
    world = provisioned()
    found = world.objects["Workload", "default", "w"]
    world.objects["Workload", "default", "w"] = {**found, "status": {}}
    world.object("ClusterQueue", "cq", {**world.objects["ClusterQueue", "", "cq"]["spec"], "stopPolicy": "Hold"})
    world.restart()
    world.until(11)
    assert not world.autoscaler.names()


def test_why_it_rests_after_a_failure_is_told_by_a_process_that_has_not_seen_it():
    world = provisioned()
    world.autoscaler.delete(world.autoscaler.names()[0])
    world.run()
    before = world.why("Workload", "w")
    assert (before.gate, before.reason) == ("Checks", "AdmissionCheck")
    assert "it is gone: somebody has deleted it" in before.message
    world.restart()
    world.run()
    assert world.why("Workload", "w") == before


def test_a_request_that_somebody_deletes_or_changes_counts_as_failed():
    world = provisioned()
    world.autoscaler.delete(world.autoscaler.names()[0])
    world.run()
    assert "somebody has deleted it" in world.why("Workload", "w").message
    world.until(61)
    raw = world.autoscaler.requests["default", world.autoscaler.names()[0]]
    world.autoscaler.put({**raw, "metadata": {**raw["metadata"], "generation": 2}})
    world.run()
    assert progress(world) == [(["spot"], "Failed", 2)]
    assert "somebody has changed its spec" in world.why("Workload", "w").message


def test_a_name_that_somebody_else_has_taken_costs_an_attempt():
    world = provisioned(kind="PodGroup")
    (name,) = world.autoscaler.names()
    world.autoscaler.say("Failed")
    taken = f"{name[: name.rindex('-')]}-2"
    world.autoscaler.requests["default", taken] = {"metadata": {"namespace": "default", "name": taken}, "spec": {}}
    world.until(61)
    assert progress(world, "PodGroup") == [(["spot"], "Failed", 2)]
    assert "the name is taken" in world.why("PodGroup", "w").message
    world.until(121)
    assert world.autoscaler.made[-1].endswith("-3")


def test_what_cannot_be_written_is_written_again_and_said():
    world = provisioned(served=False)
    why = world.why("Workload", "w")
    assert (why.gate, why.reason) == ("Placement", "Unschedulable")
    assert "component provisioning-requests" in why.message
    world.autoscaler.refuses = "403 Forbidden"
    world.autoscaler.serve()
    world.run()
    assert "could not be made yet: 403 Forbidden" in world.why("Workload", "w").message
    world.autoscaler.refuses = ""
    world.until(11)
    assert len(world.autoscaler.made) == 1


def test_what_was_made_and_is_not_seen_yet_is_written_again_after_a_while_and_told_once():
    world = provisioned(served=False)
    world.autoscaler.unseen = True
    world.autoscaler.serve()
    world.run()
    assert len([one for one in world.log if isinstance(one, CreateProvisioning)]) == 1
    world.until(9)
    assert len([one for one in world.log if isinstance(one, CreateProvisioning)]) == 1
    world.autoscaler.unseen = False
    world.until(2)
    assert len([one for one in world.log if isinstance(one, CreateProvisioning)]) == 2
    assert len(world.autoscaler.made) == 1
    assert len(world.events("ProvisioningRequested")) == 1
    world.autoscaler.say("Provisioned")
    pool(world, "n1")
    world.run()
    assert len(world.where()) == 2
    assert not world.replay().differences


def test_a_request_that_could_not_be_removed_is_removed_after_a_while():
    world = provisioned()
    world.autoscaler.refuses = "403 Forbidden"
    world.object("Workload", "w", {"podGroups": [{"count": 2}], "queueName": "queue", "active": False})
    world.run()
    assert len([one for one in world.log if isinstance(one, DeleteProvisioning)]) == 1
    world.until(9)
    assert len([one for one in world.log if isinstance(one, DeleteProvisioning)]) == 1
    world.until(2)
    assert len([one for one in world.log if isinstance(one, DeleteProvisioning)]) == 2
    assert world.autoscaler.names()
    world.autoscaler.refuses = ""
    world.until(11)
    assert not world.autoscaler.names()
    assert not world.engine.state.requests.leaving
    assert not world.replay().differences


def set_active(world: World, *, active: bool) -> None:
    world.object("Workload", "w", {"podGroups": [{"count": 2}], "queueName": "queue", "active": active})


@pytest.mark.parametrize("restarted", [False, True])
def test_templates_of_a_request_that_never_came_to_be_are_removed_when_it_is_not_needed(restarted: bool):
    world = provisioned(served=False)
    world.autoscaler.halfway = "503 ServiceUnavailable"
    world.autoscaler.lost = restarted
    world.autoscaler.serve()
    world.run()
    assert (len(world.autoscaler.templates), world.autoscaler.names()) == (1, [])
    assert progress(world) == [(["spot"], "Pending", 0)]
    if restarted:  # after it was killed between two writes
        world.autoscaler.lost = False
        set_active(world, active=False)
        world.restart()
        world.run()
    else:
        set_active(world, active=False)
        world.until(11)
    assert progress(world) == [(["spot"], "Withdrawn", 0)]
    assert not world.autoscaler.templates
    removed = [one for one in world.log if isinstance(one, DeleteProvisioning)]
    assert [(one.uid, one.workload) for one in removed] == [
        ("", world.objects["Workload", "default", "w"]["metadata"]["uid"])
    ]
    assert not world.replay().differences
    world.autoscaler.halfway = ""
    set_active(world, active=True)
    world.until(11)
    assert len(world.autoscaler.names()) == 1


def test_templates_are_left_alone_while_their_request_is_being_made():
    world = provisioned(served=False)
    world.autoscaler.halfway, world.autoscaler.lost = "503", True  # no answer has come
    world.autoscaler.serve()
    world.run()
    set_active(world, active=False)
    world.until(30)
    assert len(world.autoscaler.templates) == 1
    (asked,) = [one for one in world.log if isinstance(one, CreateProvisioning)]
    world.autoscaler.lost = False
    world.tell(ProvisioningWritten("default", asked.name, asked.owner[:2], problem="503"))
    world.until(11)
    assert not world.autoscaler.templates


def test_templates_that_could_not_be_removed_are_removed_after_a_while():
    world = provisioned(served=False)
    world.autoscaler.halfway = "503"
    world.autoscaler.serve()
    world.run()
    world.autoscaler.refuses = "403 Forbidden"
    set_active(world, active=False)
    world.until(30)
    assert world.autoscaler.templates
    assert 2 <= len([one for one in world.log if isinstance(one, DeleteProvisioning)]) <= 4
    world.autoscaler.refuses = ""
    world.until(11)
    assert not world.autoscaler.templates
    assert not world.engine.state.requests.sweeping


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": None},
        {"conditions": {"type": "Provisioned"}},
        {"conditions": [None, 7, {"type": ["Provisioned"], "status": "True"}, {"type": "Provisioned", "status": True}]},
        {"conditions": [{"type": "Provisioned", "status": "Unknown", "lastTransitionTime": "never"}]},
        {"conditions": [{"type": f"t{i}", "status": "True"} for i in range(5000)]},
        {"provisioningClassDetails": {"a": {"b": 1}, "c" * 9000: "x"}},
        [],
        7,
    ],
)
def test_absurd_statuses_say_nothing(status: Any):
    world = provisioned()
    ((_, name),) = world.autoscaler.requests
    world.autoscaler.put({**world.autoscaler.requests["default", name], "status": status})
    world.run()
    assert progress(world) == [(["spot"], "Pending", 0)]
    world.autoscaler.put({**world.autoscaler.requests["default", name], "status": {}})
    world.autoscaler.say("Failed", message="x" * 1_000_000 + "\x1b")
    world.run()
    assert progress(world) == [(["spot"], "Failed", 1)]
    assert len(world.why("Workload", "w").message) < 5_000


def test_a_request_that_pretends_to_be_another_workloads_is_none_of_it():
    world = provisioned()
    ((_, name),) = world.autoscaler.requests
    raw = world.autoscaler.requests["default", name]
    forged = {**raw["metadata"], "namespace": "theirs", "uid": "forged"}
    world.autoscaler.put({**raw, "metadata": forged, "status": {"conditions": [{"type": "Failed", "status": "True"}]}})
    world.run()
    assert progress(world) == [(["spot"], "Pending", 0)]
