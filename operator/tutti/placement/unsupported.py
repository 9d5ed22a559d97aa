"""What a pod may ask for and Tutti cannot weigh yet: such a pod waits, and says so.

Placing it as if the constraint were not there would be worse than not placing it. Preferences (preferred pod affinity,
`ScheduleAnyway` spreading) are not constraints: they are left out of the score.
"""

from __future__ import annotations

from collections.abc import Iterator

from tutti.api.core import PodSpec


def unsupported(spec: PodSpec) -> list[str]:
    """Return the constraints of a pod that no filter here knows, by their field; empty where there are none."""
    return list(_found(spec))


def _found(spec: PodSpec) -> Iterator[str]:
    affinity = spec.affinity
    if affinity is not None and affinity.pod_affinity is not None and affinity.pod_affinity.required:
        yield "spec.affinity.podAffinity (required)"
    if affinity is not None and affinity.pod_anti_affinity is not None and affinity.pod_anti_affinity.required:
        yield "spec.affinity.podAntiAffinity (required)"
    if any(one.when_unsatisfiable == "DoNotSchedule" for one in spec.topology_spread_constraints):
        yield "spec.topologySpreadConstraints (DoNotSchedule)"
    if any(port.host_port for container in (*spec.containers, *spec.init_containers) for port in container.ports):
        yield "hostPort of a container"
    if any(volume.persistent_volume_claim or volume.ephemeral for volume in spec.volumes):
        yield "a volume made from a PersistentVolumeClaim"
    if spec.resource_claims:
        yield "spec.resourceClaims"
