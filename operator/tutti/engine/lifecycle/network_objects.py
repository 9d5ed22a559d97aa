"""Follows AppGroups and the NetworkTopology, and tells on each what is the matter with it.

A pod that names an AppGroup which is missing, or cannot be read, waits for it and says so itself. Without a
NetworkTopology pods are placed all the same: nobody knows then what lies between zones, so that is told.
"""

from __future__ import annotations

from typing import Final

from tutti.api import network as api
from tutti.api.network import AppGroup, NetworkTopology, read_app_group, read_network_topology
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.decisions import EmitEvent
from tutti.engine.records.observations import NetworkObjectGone, NetworkObjectSeen
from tutti.placement.plugins.network_overhead import places_of

MOST_TOLD: Final = 100
"""How many AppGroups are told in one turn that there is no NetworkTopology."""


def network_object_seen(state: LifecycleState, seen: NetworkObjectSeen) -> None:
    """Take in an AppGroup or NetworkTopology, and tell of one that cannot be read."""
    network = state.cluster.nodes.network
    if seen.kind == api.APP_GROUP:
        group = read_app_group(seen.raw)
        if network.put_group(group) and group.problem:
            _tell(state, seen.kind, group, "InvalidAppGroup", f"{group.problem}. Until then pods that name it wait")
        return
    topology = read_network_topology(seen.raw)
    if network.put_topology(topology) and topology.problem:
        note = f"{topology.problem}. Until then nobody knows what lies between zones"
        _tell(state, seen.kind, topology, "InvalidNetworkTopology", note)


def network_object_gone(state: LifecycleState, gone: NetworkObjectGone) -> None:
    """Forget an AppGroup or NetworkTopology."""
    network = state.cluster.nodes.network
    if gone.kind == api.APP_GROUP:
        network.drop_group(gone.namespace, gone.name)
        state.groups_without_topology.pop((gone.namespace, gone.name), None)
    else:
        network.drop_topology(gone.namespace, gone.name)


def follow_network(state: LifecycleState) -> None:
    """Have those tried again who may be helped by what was written, and tell where nobody knows what costs what."""
    network = state.cluster.nodes.network
    if not network or state.network_seen == network.version:
        return
    state.network_seen = network.version
    state.cluster.freed.anywhere()
    places_of(state.cluster.nodes)  # the first gang need not wait for its columns
    if network.topology is not None:
        state.groups_without_topology.clear()
        return
    told = state.groups_without_topology
    missing = [one for one in network.groups() if (one.namespace, one.name) not in told and not one.problem]
    where = " or ".join(network.namespaces)
    note = (
        f"NetworkTopology {network.topology_name} does not exist in namespace {where}, or cannot be read, so that "
        "nobody knows what lies between zones: make it, or set network.networkTopologyName"
    )
    for one in missing[:MOST_TOLD]:
        told[one.namespace, one.name] = None
        _tell(state, api.APP_GROUP, one, "NoNetworkTopology", note)


def _tell(state: LifecycleState, kind: str, found: AppGroup | NetworkTopology, reason: str, note: str) -> None:
    about = (f"{api.GROUPS[kind]}/{api.VERSION}", kind, found.namespace, found.name, found.uid)
    state.out.append(EmitEvent(*about, "Warning", reason, "Scheduling", note))
