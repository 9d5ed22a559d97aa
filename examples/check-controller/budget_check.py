"""The controller of one admission check: a workload may run while the GPUs of its namespace's budget last.

It needs the official client (`pip install kubernetes`) and the rights of manifests/check-controller.yaml. What a
controller has to do is all here: say that its checks are Active, watch Workloads and PodGroups, answer those that are
Pending, by server-side apply of its own entry alone. It keeps nothing: what it needs to know is in the API server.
"""

from __future__ import annotations

import sys
import threading
from datetime import UTC, datetime
from typing import Any

from kubernetes import client, config, watch

GROUP, VERSION = "scheduling.tutti.dev", "v1alpha1"
CONTROLLER = "example.com/gpu-budget"
BUDGET = 8
"""So many GPUs a namespace may hold at once."""


def now() -> str:
    """Return the time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def apply_status(api: client.CustomObjectsApi, plural: str, found: dict[str, Any], status: dict[str, Any]) -> None:
    """Apply a part of an object's status; forced, since Tutti has written the entry as Pending before."""
    meta = {"name": found["metadata"]["name"]}
    body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": found["kind"], "metadata": meta, "status": status}
    how = {
        "field_manager": CONTROLLER.replace("/", "-"),
        "force": True,
        "_content_type": "application/apply-patch+yaml",
    }
    namespace = found["metadata"].get("namespace")
    if namespace:
        api.patch_namespaced_custom_object_status(GROUP, VERSION, namespace, plural, meta["name"], body, **how)
    else:
        api.patch_cluster_custom_object_status(GROUP, VERSION, plural, meta["name"], body, **how)


def gpus_held(found: dict[str, Any]) -> int:
    """Return how many GPUs a Workload or PodGroup holds quota of while it waits for its checks."""
    groups = (found.get("status", {}).get("admission") or {}).get("podGroups", [])
    return sum(int(one["amount"]) for group in groups for one in group.get("held", []) if "gpu" in one["resource"])


def answer(found: dict[str, Any]) -> dict[str, Any]:
    """Decide: Ready within the budget; beyond it never, so Rejected. One that should wait would say Retry."""
    wanted = gpus_held(found)
    if wanted > BUDGET:
        return {"state": "Rejected", "message": f"{wanted} GPUs are more than the budget of {BUDGET}"}
    return {"state": "Ready", "message": f"{wanted} of {BUDGET} GPUs"}


def follow(plural: str, mine: set[str], stop: threading.Event) -> None:
    """Answer whatever of a kind is Pending, from now on."""
    api = client.CustomObjectsApi()
    while not stop.is_set():
        events = watch.Watch().stream(api.list_cluster_custom_object, GROUP, VERSION, plural, timeout_seconds=5)
        for event in events:
            found = event["object"]
            status = found.get("status", {})
            current = status.get("checksRound") == (status.get("admission") or {}).get("round")
            for check in status.get("admissionChecks", []) if current and event["type"] != "DELETED" else []:
                if check["name"] in mine and check["state"] == "Pending":
                    entry = {"name": check["name"], "lastTransitionTime": now(), **answer(found)}
                    apply_status(api, plural, found, {"admissionChecks": [entry]})


def activate() -> set[str]:
    """Say that every AdmissionCheck that names this controller is Active; returns their names."""
    api = client.CustomObjectsApi()
    checks = api.list_cluster_custom_object(GROUP, VERSION, "admissionchecks")["items"]
    mine = [one for one in checks if one["spec"]["controllerName"] == CONTROLLER]
    for one in mine:
        told = {"type": "Active", "status": "True", "reason": "Running", "message": "", "lastTransitionTime": now()}
        apply_status(api, "admissionchecks", {**one, "kind": "AdmissionCheck"}, {"conditions": [told]})
    return {one["metadata"]["name"] for one in mine}


def main() -> None:
    """Run until interrupted."""
    config.load_config()
    stop, mine = threading.Event(), activate()
    sys.stdout.write(f"answering for {', '.join(sorted(mine)) or 'no check yet'}\n")
    kinds = [threading.Thread(target=follow, args=(plural, mine, stop)) for plural in ("workloads", "podgroups")]
    for kind in kinds:
        kind.start()
    try:
        for kind in kinds:
            kind.join()
    except KeyboardInterrupt:
        stop.set()


if __name__ == "__main__":
    sys.exit(main())
