"""What becomes of an object of which an observation has raised: it is not known as it is, and nobody else notices.

What is believed then is the careful thing. A pod takes its room, if that can be told, and is not placed. A node takes
no new pods. An object of ours, or of another project that says how large a gang is, counts as one that cannot be read.
Of anything else what was known before stands. The next observation of it is read anew.
"""

from __future__ import annotations

from tutti.api.core import Pod
from tutti.api.owners import OwnerObject
from tutti.cluster.label_index import PodSelecting
from tutti.engine.ingest.gathering import drop_member, refile
from tutti.engine.ingest.observing import concerned
from tutti.engine.records.decisions import EmitEvent, SetPodCondition
from tutti.engine.records.faults import fault_of, said
from tutti.engine.records.observations import (
    AnyObservation,
    GangObjectSeen,
    NodeSeen,
    ObjectSeen,
    Observation,
    PodSeen,
)
from tutti.engine.state import State


def unobserved(state: State, observation: AnyObservation, error: Exception) -> None:
    """Go on without an observation that could not be taken in."""
    whose = _whose(observation)
    state.out.append(fault_of(whose, error, "observing"))
    match observation:
        case PodSeen(pod=pod):
            _lose_pod(state, pod, error)
        case NodeSeen(node=node):
            state.cluster.close_node(node.metadata.name, f"what is seen of it raises {said(error)}")
        case ObjectSeen(kind=kind, raw=raw):
            namespace, name = state.catalog.spoil(kind, raw, said(error))
            concerned(state, kind, namespace, name, changed=True)
        case GangObjectSeen(api_version=version, kind=kind):
            state.gang_objects.drop(version, kind, *whose[1:])
            refile(state, *whose[1:])
        case _:
            pass


def _lose_pod(state: State, pod: Pod, error: Exception) -> None:
    """Have a pod take its room, as one of nobody's would, and not be placed; say so on the pod."""
    key = (pod.metadata.namespace, pod.metadata.name)
    member = state.members.get(key)
    if member is not None and member.pod.uid == pod.metadata.uid and key in state.home:
        member.said = 0  # whatever it says next is read
        state.touch(state.home[key][0])
    else:
        _forget(state, pod)
    if pod.spec.scheduler_name not in state.profiles or pod.spec.node_name:
        return
    text = f"it is set aside, because seeing it raised {said(error)}; everything else goes on; please report this"
    if any(one.type == "PodScheduled" and one.message == text for one in pod.status.conditions):
        return  # else every echo of what is written here would have it written again
    about = (*key, pod.metadata.uid)
    state.out.append(EmitEvent("v1", "Pod", *about, "Warning", "SetAside", "Scheduling", text))
    state.out.append(SetPodCondition(*about, "SetAside", text, pod.metadata.generation))


def _forget(state: State, pod: Pod) -> None:
    """Forget a pod that was not filed to its end; where it takes room on a node, that is counted or the node closed."""
    key = (pod.metadata.namespace, pod.metadata.name)
    drop_member(state, key)
    state.cluster.remove_pod(key)
    try:
        state.cluster.put_pod(pod, keep=False)
    except Exception as error:  # noqa: BLE001 - how much room it takes cannot be told
        node = pod.spec.node_name
        state.cluster.remove_pod(key)
        if node:
            why = f"how much Pod {key[0]}/{key[1]} takes of it cannot be told: {said(error)}"
            state.cluster.close_node(node, why, key)


def _whose(observation: Observation) -> tuple[str, str, str]:
    """Return the kind, namespace and name of what an observation is about."""
    kind = type(observation).__name__.removesuffix("Seen").removesuffix("Gone")
    for field in observation.__struct_fields__:
        about = getattr(observation, field)
        meta = getattr(about, "metadata", None)
        if meta is not None:
            return kind, meta.namespace, meta.name
        if isinstance(about, dict) and isinstance(about.get("metadata"), dict):
            named = about["metadata"]
            kind = getattr(observation, "kind", kind)
            return kind, str(named.get("namespace", "")), str(named.get("name", ""))
        if isinstance(about, OwnerObject | PodSelecting):
            return about.kind, about.namespace, about.name
    return kind, str(getattr(observation, "namespace", "")), str(getattr(observation, "name", ""))
