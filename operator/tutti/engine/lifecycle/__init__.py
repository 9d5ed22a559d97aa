"""From a reservation to the end: held, bound, watched, taken out."""

from __future__ import annotations

from dataclasses import dataclass, field

from tutti.cluster.devices.asks import ClaimKey
from tutti.cluster.devices.taint_rules import PoolKey
from tutti.cluster.pods import PodKey
from tutti.engine.core_state import CoreState
from tutti.engine.records.device_writes import DeviceWrite, PoolTrouble
from tutti.engine.records.plugins import PluginHold
from tutti.engine.records.provisioning import ProvisioningRequests
from tutti.engine.records.reservations import KeptForSuccessors
from tutti.engine.records.workloads import Workload, WorkloadKey


@dataclass(kw_only=True)
class LifecycleState(CoreState):
    """What the rules of a life need beside that.

    Attributes:
        kept_for_successors: What is kept for the successors of members that running gangs have lost.
        plugin_holds: Reservations that a plugin holds.
        returned_seen: What had been given back when these were last looked at.
        ending: Workloads with quota and room that must end by a known time.
        expected: Workloads with quota and room of which it is known how long they are expected to take.
        device_writes: What is being written on claims on devices.
        card_turns: The pod with parts of cards whose bind is out, by the node.
        card_waits: Workloads that wait until others of a node have been given theirs, by the node.
        requests: What has been asked of cluster autoscalers, as it is seen.
        device_pools: What is the matter with pools of devices.
        bound_claims: Claims with which bound pods run and something is the matter, and since when, Unix seconds.
        claims_looked_at: Whether the claims of all bound pods have been looked at since the start.
        network_seen: What `cluster.nodes.network.version` was when that was last looked at.
        groups_without_topology: AppGroups that were told that there is no NetworkTopology.
        removals: When claims that could not be removed are to be removed again, Unix seconds.
        given_up: Claims of PodGroups whose gangs are being taken out, and the uid of each group.
    """

    kept_for_successors: dict[WorkloadKey, KeptForSuccessors] = field(default_factory=dict)
    plugin_holds: dict[WorkloadKey, PluginHold] = field(default_factory=dict)
    returned_seen: tuple[int, int] = (0, 0)
    ending: dict[WorkloadKey, Workload] = field(default_factory=dict)
    expected: dict[WorkloadKey, Workload] = field(default_factory=dict)
    device_writes: dict[ClaimKey, DeviceWrite] = field(default_factory=dict)
    card_turns: dict[str, PodKey] = field(default_factory=dict)
    card_waits: dict[str, dict[WorkloadKey, None]] = field(default_factory=dict)
    requests: ProvisioningRequests = field(default_factory=ProvisioningRequests)
    network_seen: int = 0
    groups_without_topology: dict[tuple[str, str], None] = field(default_factory=dict)
    removals: dict[ClaimKey, float] = field(default_factory=dict)
    device_pools: dict[PoolKey, PoolTrouble] = field(default_factory=dict)
    bound_claims: dict[ClaimKey, float] = field(default_factory=dict)
    claims_looked_at: bool = False
    given_up: dict[ClaimKey, str] = field(default_factory=dict)
