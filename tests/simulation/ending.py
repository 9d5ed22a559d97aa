"""How a cluster must look once everything has come to its end, and once its users have cleaned up."""

from __future__ import annotations

from typing import Any

from tests.simulation.mistakes import BAD, is_stray
from tests.simulation.server import Json
from tests.simulation.world import Gang, World

GANG_KINDS = ("PodGroup", "Workload")
LASTING = ("QuotaReserved", "Admitted", "Scheduled", "PodsReady", "Finished")
"""Conditions that say how it is; others say what has happened on the way, such as a preemption."""
COUNTS = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")


def unserved(world: World) -> list[str]:
    """What still has to come beside a gang that never ends, in whose place only required members may go."""
    left = []
    for gang in _wanted(world):
        waiting = _not_succeeded(world, gang)
        required = len(gang.members) if gang.about["how"] == "Pod" else min(gang.about["least"], len(gang.members))
        left += waiting if max(len(gang.members) - len(waiting), _cleaned_up(world, gang)) < required else []
    return left


def _cleaned_up(world: World, gang: Gang) -> int:
    """How many members have succeeded by its object's status: a pod that has is taken away with a node that is lost.

    Its user makes it once more, for he cannot know; nobody is taken out for that.
    """
    found = next((one for one in _gangs(world) if one["metadata"]["name"] == gang.name), {})
    return sum(int(one.get("succeeded", 0)) for one in _status(found).get("admission", {}).get("podGroups", []))


def unfinished(world: World) -> list[str]:
    """What still has to come: members that have not succeeded, and Jobs, whose queue takes nobody out for them."""
    return [name for gang in _wanted(world) for name in _not_succeeded(world, gang)] + world.waits.unfinished()


def orphaned(world: World) -> list[str]:
    """Claims that have devices though no pod uses them any more."""
    return world.devices.orphans()


def untold(world: World) -> list[str]:
    """What objects still say though it is over: gangs that have not finished, queues that are in use."""
    left = [f"{one['metadata']['name']} has not finished" for one in _peopled(world) if not _is_over(one)]
    for kind in ("ClusterQueue", "LocalQueue"):
        for one in world.server.objects(kind):
            left += [f"{kind} {one['metadata']['name']}: {what}" for what in _in_use(_status(one))]
    return left


def silent(world: World) -> list[str]:
    """Objects that are wrong for good and are not told what is wrong with them."""
    stored = {(kind, one["metadata"]["name"]): one for kind in BAD for one in world.server.objects(kind)}
    return [f"{kind} {name}" for kind, name in world.mistakes.junk if not _is_told_what(stored[kind, name])]


def leftovers(world: World) -> list[str]:
    """What is still there after the users have deleted everything of theirs: objects made for them, and memory."""
    left = [f"{one['kind']} {one['metadata']['name']} is left" for one in _gangs(world)]
    left += [
        f"claim {one['metadata']['name']} is left"
        for one in world.devices.claims()
        if one["metadata"].get("ownerReferences")
    ]
    left += world.devices.orphans()
    for replica in world.operators.values():
        if replica.engine is not None and replica.alive:
            state = replica.engine.state
            leads = "leads" if replica.leads else "stands by"
            left += [f"{replica.name}, which {leads}, remembers {key}" for key in (*state.workloads, *state.members)]
            left += [f"{replica.name}, which {leads}, counts quota of {queue}" for queue in state.ledger.queues()]
    return left


def end_state(world: World) -> Json:
    """What a user sees in the end, without the times and the nodes: these may differ from run to run."""
    gangs = {
        f"{one['kind']}/{one['metadata']['name']}": {
            "phase": _status(one).get("phase"),
            "conditions": {
                each["type"]: each["status"] for each in _status(one).get("conditions", []) if each["type"] in LASTING
            },
            "succeeded": _status(one).get("succeeded"),
        }
        for one in _gangs(world)
    }
    # Whether members of what was set inactive are created once more depends on who was faster.
    ended = [one for one in world.server.all_pods() if _phase(one) in ("Succeeded", "Failed")]
    pods = {one["metadata"]["name"]: _phase(one) for one in ended}
    claims = world.server.resource("", "v1", "persistentvolumeclaims")
    volumes = {one.obj["metadata"]["name"]: _phase(one.obj) for one in world.server.backend.collection(claims).scan()}
    return {"gangs": gangs, "pods": pods, "volumes": volumes, "untold": untold(world)}


def _gangs(world: World) -> list[Json]:
    return [one for kind in GANG_KINDS for one in world.server.objects(kind)]


def _wanted(world: World) -> list[Gang]:
    """Gangs that their users want to have run."""
    gangs = world.gangs.values()
    return [one for one in gangs if one.about is not None and not (one.is_endless or world.is_given_up(one))]


def _not_succeeded(world: World, gang: Gang) -> list[str]:
    phases = [(name, _phase(world.server.pod(name))) for name in gang.members]
    return [f"{name} ({phase})" for name, phase in phases if phase != "Succeeded"]


def _peopled(world: World) -> list[Json]:
    """Gangs but for those that wait for ever: no user has created a member of them, or it is wrong what he did."""
    empty = {name for name, gang in world.gangs.items() if not gang.members}
    names = [(one["metadata"]["name"], one) for one in _gangs(world)]
    return [one for name, one in names if name not in empty and not is_stray(name)]


def _is_over(gang: Json) -> bool:
    """Whether an object says that its gang is over."""
    conditions = _status(gang).get("conditions", [])
    inactive = not gang["spec"].get("active", True)
    return inactive or any(one["type"] == "Finished" and one["status"] == "True" for one in conditions)


def _is_told_what(one: Json) -> bool:
    conditions = _status(one).get("conditions", [])
    return any(each["status"] == "False" and each["message"] for each in conditions)


def _in_use(status: Json) -> list[str]:
    counts = [f"{field} is {status[field]}" for field in COUNTS if status.get(field)]
    totals = [
        f"{flavor['name']} {one['name']}: {one['total']}"
        for field in ("flavorsReservation", "flavorsUsage")
        for flavor in status.get(field, [])
        for one in flavor["resources"]
        if one["total"] != "0"
    ]
    return counts + totals


def _status(one: Json) -> dict[str, Any]:
    return one.get("status") or {}


def _phase(pod: Json | None) -> str:
    return pod.get("status", {}).get("phase", "") if pod else "missing"
