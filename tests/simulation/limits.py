"""What nodes and queues offer, and whether more of it is used, by what the API server says and by nothing else."""

from __future__ import annotations

from tests.simulation.pods import GPU, GROUP, gpus_of, lives
from tests.simulation.server import Json, Server

LIMITS = {"cq1": 8, "cq2": 8, "cq3": 6, "cq4": 4, "cq5": 4, "cq6": 4, "cq7": 4, "cq8": 4}
"""GPUs that may be used of each ClusterQueue, with what it may borrow."""
COHORT = ("cq1", "cq2")
OF_COHORT = 8
"""GPUs that the queues of the cohort may use together."""


def exceeded(server: Server, pod: Json, strays: frozenset[str] = frozenset(), *, in_parts: bool = False) -> list[str]:
    """What is used beyond what there is, now that a pod has been bound.

    Ours alone never exceed a node, and those of a queue never what it and its cohort may use.

    Args:
        server: Knows of all pods.
        pod: The one that has been bound.
        strays: The uids of pods that were sent to a node before it was gone, and may have reached its successor.
        in_parts: Whether the cohort is not whole, or was not lately: a queue that cannot be read is none of it, so the
            others have their own back at once, though what that queue has borrowed of them runs on.
    """
    told, node, name = [], pod["spec"]["nodeName"], pod["metadata"]["name"]
    home = server.backend.find("nodes", "", node)
    if home is not None and pod["spec"]["schedulerName"] == "tutti":
        ours = held(server, node, scheduler="tutti", but=strays)
        if ours > int(home["status"]["allocatable"][GPU]):
            told.append(f"{ours} GPUs of ours are on {node}, with {name}")
    used = _used(server)
    told += [f"{used[queue]} GPUs are used of {queue}, with {name}" for queue in LIMITS if _over(used, queue)]
    if not in_parts and sum(used.get(queue, 0) for queue in COHORT) > OF_COHORT and _queue_of(pod) in COHORT:
        told.append(f"the cohort is used beyond what it has: {used}")
    return told


def held(server: Server, node: str, scheduler: str = "", but: frozenset[str] = frozenset()) -> int:
    """GPUs of pods that are on a node and have not ended."""
    here = [pod for pod in server.all_pods() if pod["spec"].get("nodeName") == node and lives(pod)]
    return sum(
        gpus_of(pod)
        for pod in here
        if scheduler in ("", pod["spec"]["schedulerName"]) and pod["metadata"]["uid"] not in but
    )


def used_of(server: Server, queue: str) -> int:
    """GPUs of a ClusterQueue that bound pods use which are not on their way out."""
    return _used(server).get(queue, 0)


def _over(used: dict[str, int], queue: str) -> bool:
    return used.get(queue, 0) > LIMITS[queue]


def _used(server: Server) -> dict[str, int]:
    """GPUs of each ClusterQueue that bound pods use which are not on their way out.

    A pod on a node that is gone runs nowhere, though nobody has deleted it yet: it may have been bound after its node.
    """
    used: dict[str, int] = {}
    for pod in server.all_pods():
        name, node = _queue_of(pod), pod["spec"].get("nodeName")
        runs = bool(node) and server.backend.find("nodes", "", node) is not None
        if name and runs and lives(pod) and not pod["metadata"].get("deletionTimestamp"):
            used[name] = used.get(name, 0) + gpus_of(pod)
    return used


def _queue_of(pod: Json) -> str:
    """The ClusterQueue that a pod was admitted by; "" for none."""
    noted = (pod["metadata"].get("annotations") or {}).get(f"{GROUP}/admission", "")
    return noted.split('"clusterQueue":"')[-1].split('"')[0] if noted else ""
