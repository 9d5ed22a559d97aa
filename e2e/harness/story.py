"""Words for telling a story: who makes what, what is seen, and who dies."""

from __future__ import annotations

import contextlib
import itertools
import signal
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

from kubernetes import client

from e2e.harness.clusters import Cluster
from e2e.harness.kubelets import has_account
from e2e.harness.processes import PATIENCE, wait_for
from e2e.harness.replica import OperatorProcess, binds, launched

GROUP, VERSION = "scheduling.tutti.dev", "v1alpha1"
PLURALS = {
    "ResourceFlavor": "resourceflavors", "ClusterQueue": "clusterqueues", "Cohort": "cohorts",
    "LocalQueue": "localqueues", "Workload": "workloads", "PodGroup": "podgroups", "Topology": "topologies",
    "AdmissionCheck": "admissionchecks",
}  # fmt: skip
NAMESPACED = {"LocalQueue", "Workload", "PodGroup"}
PAUSE = "registry.k8s.io/pause:3.9"


class Story:
    """One story in one namespace of a cluster."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster, self.namespace, self.folder = cluster, namespace, folder
        self.connect()
        self.operator: OperatorProcess | None = None
        self.kubeconfig = cluster.kubeconfig  # as whom the operator comes; a story may give it less than every right
        self._made: list[tuple[str, str]] = []
        self._classes: list[str] = []
        self._told = itertools.count(1)
        self.core.create_namespace({"metadata": {"name": namespace}})
        if cluster.replica_sets:
            wait_for(lambda: has_account(self.core, namespace), "the namespace to have a service account")

    def connect(self) -> None:
        """Come to the server anew, as it shows itself now."""
        self.api = self.cluster.connect()
        self.core = client.CoreV1Api(self.api)
        self.custom = client.CustomObjectsApi(self.api)

    def close(self) -> None:
        """Stop the operator and remove what the story has made; nobody is left to take finalizers off."""
        self.stop_operator()
        self.core.delete_collection_namespaced_pod(self.namespace, grace_period_seconds=0)
        for kind, name in reversed(self._made):
            with contextlib.suppress(client.ApiException):  # the story itself may have removed it
                self.remove(kind, name)
        for name in self._classes:
            client.SchedulingV1Api(self.api).delete_priority_class(name)
        self.core.delete_namespace(self.namespace)
        self.api.close()

    # ---- the operator

    def start_operator(self, **configuration: Any) -> None:
        """Start the operator as a user would."""
        self.operator = launched(self.kubeconfig, self.folder, configuration)

    def kill_operator(self) -> None:
        """Kill -9: nothing is said, nothing is released."""
        assert self.operator is not None
        self.operator.kill()
        self.operator.wait()
        self.operator = None

    def stop_operator(self) -> int | None:
        """Ask the operator to end; returns its exit code."""
        if self.operator is None:
            return None
        operator, self.operator = self.operator, None
        return operator.stop()

    @property
    def log(self) -> Path:
        """What the operator has said."""
        return self.folder / "operator.log"

    # ---- what users make

    def object(self, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Make an object of one of our kinds."""
        body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": {"name": name}, "spec": spec}
        if kind in NAMESPACED:
            made = self.custom.create_namespaced_custom_object(GROUP, VERSION, self.namespace, PLURALS[kind], body)
        else:
            made = self.custom.create_cluster_custom_object(GROUP, VERSION, PLURALS[kind], body)
        self._made.append((kind, name))
        return dict(made)

    def guest(self, group: str, version: str, spec: dict[str, Any], *, name: str) -> None:
        """Make a PodGroup of another project."""
        body = {"apiVersion": f"{group}/{version}", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
        self.custom.create_namespaced_custom_object(group, version, self.namespace, "podgroups", body)

    def change(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        """Change fields in the spec of an object of ours."""
        body = {"spec": spec}
        if kind in NAMESPACED:
            where = (GROUP, VERSION, self.namespace, PLURALS[kind], name)
            self.custom.patch_namespaced_custom_object(*where, body)
        else:
            self.custom.patch_cluster_custom_object(GROUP, VERSION, PLURALS[kind], name, body)

    def remove(self, kind: str, name: str) -> None:
        """Delete an object of one of our kinds, whatever holds it: what is being deleted gets no finalizer any more."""
        bare = {"metadata": {"finalizers": None}}
        if kind in NAMESPACED:
            where = (GROUP, VERSION, self.namespace, PLURALS[kind], name)
            delete, patch = self.custom.delete_namespaced_custom_object, self.custom.patch_namespaced_custom_object
        else:
            where = (GROUP, VERSION, PLURALS[kind], name)
            delete, patch = self.custom.delete_cluster_custom_object, self.custom.patch_cluster_custom_object
        delete(*where)
        try:
            patch(*where, bare)
        except client.ApiException as gone:
            if gone.status != HTTPStatus.NOT_FOUND:
                raise

    def queue(self, name: str, gpus: int, **spec: Any) -> None:
        """A ClusterQueue with so many GPUs and plenty of the rest, and a LocalQueue of the same name to it."""
        self.object("ResourceFlavor", name, {})
        spec = {"resourceGroups": _quota(name, gpus), "namespaceSelector": {}, **spec}
        self.object("ClusterQueue", name, spec)
        self.object("LocalQueue", name, {"clusterQueue": name})

    def resize_queue(self, name: str, gpus: int) -> None:
        """Have such a ClusterQueue with so many GPUs from now on."""
        self.change("ClusterQueue", name, {"resourceGroups": _quota(name, gpus)})

    def gang(self, name: str, size: int, *, gpus: int = 1, queue: str = "", **pod: Any) -> None:
        """A PodGroup that needs all its members, and the members."""
        spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": size}}}
        if queue:
            spec["queueName"] = queue
        self.object("PodGroup", name, spec)
        for rank in range(size):
            self.pod(f"{name}-{rank}", gpus=gpus, labels={f"{GROUP}/pod-group": name}, **pod)

    def crew(
        self, name: str, size: int, *, gpus: int = 1, queue: str = "", selector: dict[str, str] | None = None,
        patience: int = 1, device_claims: list[dict[str, Any]] | None = None, **group: Any,
    ) -> None:  # fmt: skip
        """A gang whose members somebody makes anew: a Deployment where there is who makes its pods, else a Job.

        Its members stay for `patience` seconds on a node that is silent; `group` are further fields of the PodGroup.
        """
        spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": size}}, **group}
        if queue:
            spec["queueName"] = queue
        self.object("PodGroup", name, spec)
        gpu = {"nvidia.com/gpu": str(gpus)}
        resources = {"requests": {"cpu": "10m", "memory": "8Mi", **gpu}, "limits": gpu}
        silent = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        forgives = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": patience}
        pod = {
            "schedulerName": "tutti",
            "nodeSelector": selector or {},
            "tolerations": [{"key": key, **forgives} for key in silent],
            "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "c", "image": PAUSE, "resources": resources}],
            "resourceClaims": device_claims or [],
        }
        labels = {"app": name, f"{GROUP}/pod-group": name}
        if self.cluster.replica_sets:
            template = {"metadata": {"labels": labels}, "spec": pod}
            body = {"replicas": size, "selector": {"matchLabels": {"app": name}}, "template": template}
            deployment = {"metadata": {"name": name}, "spec": body}
            client.AppsV1Api(self.api).create_namespaced_deployment(self.namespace, deployment)
        else:
            template = {"metadata": {"labels": labels}, "spec": {**pod, "restartPolicy": "OnFailure"}}
            body = {"parallelism": size, "completions": size, "backoffLimit": 1000, "template": template}
            client.BatchV1Api(self.api).create_namespaced_job(
                self.namespace, {"metadata": {"name": name}, "spec": body}
            )

    def pod(
        self, name: str, *, gpus: int | str = 0, cpu: str = "10m", labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None, selector: dict[str, str] | None = None,
        volumes: list[dict[str, Any]] | None = None, readiness_gate: str = "", priority_class: str = "", grace: int = 0,
        tolerations: list[dict[str, Any]] | None = None, guaranteed: bool = False,
        device_claims: list[dict[str, Any]] | None = None, extended: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        """A pod for Tutti; with a readiness gate, which nobody opens, it never becomes ready.

        It takes `grace` seconds to end when it is told to; `guaranteed`, it limits all that it requests.
        """
        requests = {"cpu": cpu, "memory": "8Mi"}
        gpu = {**({"nvidia.com/gpu": str(gpus)} if gpus else {}), **(extended or {})}
        resources = {"requests": {**requests, **gpu}, "limits": {**(requests if guaranteed else {}), **gpu}}
        spec = {
            "schedulerName": "tutti",
            "nodeSelector": selector or {},
            "tolerations": tolerations or [],
            "terminationGracePeriodSeconds": grace,
            "priorityClassName": priority_class,
            "containers": [{"name": "c", "image": PAUSE, "resources": resources, **_slow_to_end(grace)}],
            "volumes": volumes or [],
            "resourceClaims": device_claims or [],
            "readinessGates": [{"conditionType": readiness_gate}] if readiness_gate else [],
        }
        hangs = {"sim.tutti.dev/hang-probability": "1"} if grace else {}
        meta = {"name": name, "labels": labels or {}, "annotations": {**hangs, **(annotations or {})}}
        self.core.create_namespaced_pod(self.namespace, {"metadata": meta, "spec": spec})

    def priority_class(self, name: str, value: int) -> str:
        """Make a PriorityClass of this story's own; returns its name."""
        name = f"{self.namespace}-{name}"
        body = {"metadata": {"name": name}, "value": value}
        client.SchedulingV1Api(self.api).create_priority_class(body)
        self._classes.append(name)
        return name

    def label_nodes(self, names: tuple[str, ...], labels: dict[str, str | None]) -> None:
        """Put labels on nodes, or (with None) take them off."""
        for name in names:
            self.core.patch_node(name, {"metadata": {"labels": labels}})

    def finish(self, prefix: str) -> None:
        """Let the work of pods come to an end."""
        self.end(*(pod.metadata.name for pod in self.pods(prefix)))

    def end(self, *pods: str, phase: str = "Succeeded") -> None:
        """Let the work of pods come to an end, with success or without.

        A real kubelet that reads of a pod that runs that it has succeeded ends the containers, and then says what came
        of them: with a pretended runtime, success. It looks at a pod whose annotations change; what changes in the
        status alone it may write over instead, and is told again. A failure of its own making is that of a pod that
        has run for longer than it may. No kubelet says so while containers run, and until they have ended it takes
        nobody in their place: so the operator does not get to see it before.
        """
        if not self.cluster.replica_sets:
            for pod in pods:
                self._say(pod, phase)
            return
        self.wait(lambda: all(map(self._has_started, pods)), f"{', '.join(pods)} to start")
        with self._blind():
            for pod in pods:
                self._say(pod, phase)
            self.wait(lambda: all(self._ends(pod, phase) for pod in pods), f"{', '.join(pods)} to end")

    @contextlib.contextmanager
    def _blind(self) -> Iterator[None]:
        """Have the operator stand still, where there is one."""
        running = self.operator
        if running is None:
            yield
            return
        running.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            running.send_signal(signal.SIGCONT)

    def _say(self, pod: str, phase: str) -> None:
        if phase == "Failed" and self.cluster.replica_sets:
            self.core.patch_namespaced_pod(pod, self.namespace, {"spec": {"activeDeadlineSeconds": 1}})
            return
        told = {"annotations": {"e2e.tutti.dev/told": str(next(self._told))}}
        self.core.patch_namespaced_pod_status(pod, self.namespace, {"metadata": told, "status": {"phase": phase}})

    def _has_started(self, pod: str) -> bool:
        """Whether a pod's containers run, or have run."""
        return self.core.read_namespaced_pod(pod, self.namespace).status.phase not in ("", "Pending")

    def _ends(self, pod: str, phase: str) -> bool:
        """Whether all containers of a pod have ended; says once more that they are to, where that was written over.

        Who waits for its end may have deleted it by then, as `helm test` does.
        """
        try:
            status = self.core.read_namespaced_pod(pod, self.namespace).status
        except client.ApiException as gone:
            if gone.status != HTTPStatus.NOT_FOUND:
                raise
            return True
        if status.phase not in ("Succeeded", "Failed"):
            self._say(pod, phase)
            return False
        return all(one.state.terminated for one in status.container_statuses or [])

    def let_leave(self, prefix: str) -> None:
        """Have pods end that have been told to, where there is no kubelet that lets them."""
        if not self.cluster.kubelets:
            self.make_leave(prefix)

    def make_leave(self, prefix: str) -> None:
        """Have pods end that have been told to, however long they might take."""
        for pod in self.pods(prefix):
            if pod.metadata.deletion_timestamp:
                self._end(pod.metadata.name)

    def _end(self, pod: str) -> None:
        """Have a pod be gone, unless it is by now."""
        try:
            self.core.delete_namespaced_pod(pod, self.namespace, grace_period_seconds=0)
        except client.ApiException as gone:
            if gone.status != HTTPStatus.NOT_FOUND:
                raise

    # ---- what is seen

    def pods(self, prefix: str) -> list[Any]:
        """Pods whose name begins so."""
        found = self.core.list_namespaced_pod(self.namespace).items
        return [pod for pod in found if pod.metadata.name.startswith(prefix)]

    def living(self, prefix: str) -> dict[str, str]:
        """Pods that have a node, and have neither ended nor been told to, and the node."""
        return {
            pod.metadata.name: pod.spec.node_name
            for pod in self.pods(prefix)
            if pod.spec.node_name
            and pod.status.phase not in ("Succeeded", "Failed")
            and not pod.metadata.deletion_timestamp
        }

    def where(self, prefix: str) -> dict[str, str]:
        """Pods that have a node and have not ended, and the node."""
        return {
            pod.metadata.name: pod.spec.node_name
            for pod in self.pods(prefix)
            if pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed")
        }

    def node_of(self, pod: str) -> str:
        """The node of one pod; "" while it has none."""
        return str(self.core.read_namespaced_pod(pod, self.namespace).spec.node_name or "")

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """An object of one of our kinds, as it is now."""
        if kind in NAMESPACED:
            return dict(self.custom.get_namespaced_custom_object(GROUP, VERSION, self.namespace, PLURALS[kind], name))
        return dict(self.custom.get_cluster_custom_object(GROUP, VERSION, PLURALS[kind], name))

    def all(self, kind: str) -> list[dict[str, Any]]:
        """All objects of one of our namespaced kinds."""
        found = self.custom.list_namespaced_custom_object(GROUP, VERSION, self.namespace, PLURALS[kind])
        return list(found["items"])

    def why(self, group: str) -> dict[str, Any]:
        """The reason a PodGroup gives for waiting; empty where it gives none."""
        status = self.get("PodGroup", group).get("status", {})
        reasons = (status.get("pendingReason") or {}).get("reasons") or [{}]
        return dict(reasons[0])

    def condition(self, kind: str, name: str, type_: str) -> dict[str, Any]:
        """A condition of an object; empty where it has none of that type."""
        conditions = self.get(kind, name).get("status", {}).get("conditions", [])
        return next((dict(c) for c in conditions if c["type"] == type_), {})

    def pod_condition(self, name: str) -> tuple[str, str]:
        """Reason and message of a pod's PodScheduled condition."""
        pod = self.core.read_namespaced_pod(name, self.namespace)
        for condition in pod.status.conditions or []:
            if condition.type == "PodScheduled" and condition.status == "False":
                return condition.reason, condition.message
        return "", ""

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reasons and notes of the events about an object."""
        return [(e.get("reason", ""), e.get("note", "")) for e in self._events() if e["regarding"].get("name") == name]

    def notes(self) -> list[str]:
        """Notes of all events."""
        return [event.get("note", "") for event in self._events()]

    def _events(self) -> list[dict[str, Any]]:
        # Not by the client's EventsV1Api, which takes no event that a controller has written the old way.
        found = self.custom.list_namespaced_custom_object("events.k8s.io", "v1", self.namespace, "events")["items"]
        return list(found)

    def wait(self, so: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
        """Wait until something is so; fails with the end of the operator's log."""
        wait_for(so, what, self.operator, self.log, seconds)

    def binds(self) -> Iterator[tuple[str, str, str]]:
        """Every bind that the journal records: pod, uid and node."""
        return binds(self.folder / "journal")


def _quota(flavor: str, gpus: int) -> list[dict[str, Any]]:
    """The resource groups of a queue with so many GPUs and plenty of the rest."""
    covered = {"nvidia.com/gpu": gpus, "cpu": 1000, "memory": "10Ti"}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in covered.items()]
    return [{"coveredResources": list(covered), "flavors": [{"name": flavor, "resources": resources}]}]


def _slow_to_end(seconds: int) -> dict[str, Any]:
    """What lets a real container take its time; a hollow one is told by an annotation."""
    return {"lifecycle": {"preStop": {"sleep": {"seconds": seconds}}}} if seconds else {}
