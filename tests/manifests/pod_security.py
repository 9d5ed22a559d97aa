"""The "restricted" level of Kubernetes' Pod Security Standards, as far as a Deployment of one container can break it.

Source of the rules: https://kubernetes.io/docs/concepts/security/pod-security-standards/ (restricted includes baseline).
"""

from __future__ import annotations

from typing import Any

_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
_SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
}  # fmt: skip

Json = dict[str, Any]


def restricted_violations(pod: Json) -> list[str]:
    """What in a pod's spec the level "restricted" forbids, by the path of the field."""
    found = [f"{field} is true" for field in ("hostNetwork", "hostPID", "hostIPC") if pod.get(field)]
    context = pod.get("securityContext", {})
    found += [
        f"securityContext.sysctls: {one['name']}" for one in context.get("sysctls", ()) if one["name"] not in _SYSCTLS
    ]
    for volume in pod.get("volumes", ()):
        found += [f"volumes: {kind} of {volume['name']}" for kind in volume.keys() - {"name"} - _VOLUMES]
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in pod.get(kind, ()):
            found += [f"{kind}.{container['name']}: {problem}" for problem in _container(container, context)]
    return found


def _container(container: Json, pod: Json) -> list[str]:
    own = container.get("securityContext", {})
    merged = {**{key: pod[key] for key in ("runAsNonRoot", "runAsUser", "seccompProfile") if key in pod}, **own}
    capabilities = own.get("capabilities", {})
    rules = {
        "privileged": not own.get("privileged", False),
        "allowPrivilegeEscalation is not false": own.get("allowPrivilegeEscalation") is False,
        "runAsNonRoot is not true": merged.get("runAsNonRoot") is True,
        "runAsUser is 0": merged.get("runAsUser") != 0,
        "no seccompProfile": merged.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
        "capabilities are not dropped": "ALL" in capabilities.get("drop", ()),
        "capabilities are added": set(capabilities.get("add", ())) <= {"NET_BIND_SERVICE"},
        "procMount": own.get("procMount", "Default") == "Default",
        "hostPort": not any(port.get("hostPort") for port in container.get("ports", ())),
    }
    return [text for text, kept in rules.items() if not kept]
