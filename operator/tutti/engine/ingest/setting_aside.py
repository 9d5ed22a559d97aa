"""What becomes of an object of which an observation raises: it is not known as it is, and nobody else notices.

What is believed then is the careful thing: a pod takes its room, if that can be told, and is not placed. A node takes
no new pods. An object of ours, or of another project that says how large a gang is, counts as one that cannot be
read. Of anything else what was known before stands. The next observation of it is read anew.
"""

from __future__ import annotations

from tutti.api.core import Pod
from tutti.api.frameworks import ProjectedOwner
from tutti.api.numa import KIND as NODE_TOPOLOGY
from tutti.api.numa import NodeTopology
from tutti.cluster.label_index import PodSelecting
from tutti.engine.ingest import IngestState
from tutti.engine.ingest.handlers import gang_object_changed, touch_concerned
from tutti.engine.ingest.membership import drop_member, put_alone
from tutti.engine.records import observations
from tutti.engine.records.decisions import EmitEvent, SetPodCondition, error_text, fault_of
from tutti.engine.records.observation import Observation


def unobserved(state: IngestState, observation: Observation, error: Exception) -> None:
    """Go on without an observation that could not be taken in."""
    whose = _whose(observation)
    state.out.append(fault_of(whose, error, "observing"))
    match observation:
        case observations.PodSeen(pod=pod):
            _lose_pod(state, pod, error)
        case observations.NodeSeen(node=node):
            state.cluster.close_node(node.metadata.name, f"what is seen of it raises {error_text(error)}")
        case observations.ObjectSeen(kind=kind, raw=raw):
            namespace, name = state.catalog.mark_invalid(kind, raw, error_text(error))
            touch_concerned(state, kind, namespace, name, changed=True)
        case observations.GangObjectSeen(api_version=version, kind=kind):
            state.gang_objects.drop(version, kind, *whose[1:])
            gang_object_changed(state, *whose[1:])
        case _:
            pass


def _lose_pod(state: IngestState, pod: Pod, error: Exception) -> None:
    """Have a pod take its room, as one of nobody's would, and not be placed; say so on the pod."""
    key = (pod.metadata.namespace, pod.metadata.name)
    member = state.members.get(key)
    if member is not None and member.pod.uid == pod.metadata.uid and key in state.pod_group_of:
        member.parsed_from = 0  # whatever it says next is read
        state.touch(state.pod_group_of[key][0])
    else:
        _forget(state, pod, error)
    if pod.spec.scheduler_name not in state.profiles or pod.spec.node_name:
        return
    text = f"it is set aside, because seeing it raised {error_text(error)}; everything else goes on; please report this"
    if any(one.type == "PodScheduled" and one.message == text for one in pod.status.conditions):
        return  # else every echo of what is written here would have it written again
    about = (*key, pod.metadata.uid)
    state.out.append(EmitEvent("v1", "Pod", *about, "Warning", "SetAside", "Scheduling", text))
    state.out.append(SetPodCondition(*about, "SetAside", text, pod.metadata.generation))


def _forget(state: IngestState, pod: Pod, error: Exception) -> None:
    """Forget a pod that was not filed to its end; where it takes room on a node, that is counted or the node closed.

    One of ours that has a node stays charged as what it was admitted to.
    """
    key, node = (pod.metadata.namespace, pod.metadata.name), pod.spec.node_name
    drop_member(state, key)
    state.cluster.remove_pod(key)
    if node and pod.spec.scheduler_name in state.profiles:
        try:
            put_alone(state, pod, f"seeing it raises {error_text(error)}")
        except Exception as again:  # noqa: BLE001 - told; it counts as one of nobody's then
            state.out.append(fault_of(("Pod", *key), again, "observing"))
            drop_member(state, key)
            state.cluster.remove_pod(key)
        else:
            return
    try:
        state.cluster.put_pod(pod, keep=False)
    except Exception as again:  # noqa: BLE001 - how much room it takes cannot be told
        state.cluster.remove_pod(key)
        if node:
            why = f"how much Pod {key[0]}/{key[1]} takes of it cannot be told: {error_text(again)}"
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
        if isinstance(about, NodeTopology):
            return NODE_TOPOLOGY, "", about.name
        if isinstance(about, ProjectedOwner | PodSelecting):
            return about.kind, about.namespace, about.name
    return kind, str(getattr(observation, "namespace", "")), str(getattr(observation, "name", ""))
