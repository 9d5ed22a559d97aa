"""The built-in resources: one line of names for each, and where its behaviour comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tutti_sim.crd.definitions import DefinitionStrategy
from tutti_sim.devices import strategies as devices
from tutti_sim.kinds import (
    columns,
    core,
    jobs,
    limits,
    other_columns,
    others,
    roles,
    volumes,
    workload_columns,
    workloads,
)
from tutti_sim.kinds.alike import PodCodec
from tutti_sim.kinds.pods import PodStrategy
from tutti_sim.kinds.resource import ALL_VERBS, STATUS_VERBS, BuiltinCodec, Resource, ScalePaths, Strategy, Subresource
from tutti_sim.meta.selectors import METADATA, Getter, flag, path

_COLUMNS = {**columns.COLUMNS, **workload_columns.COLUMNS, **other_columns.COLUMNS}
NO_COLLECTION = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
SCALE = ScalePaths("spec.replicas", "status.replicas", "spec.selector")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table below. `subs` names subresources; a kind's status is among them if it has one."""

    group: str
    plural: str
    kind: str
    strategy: Callable[[], Strategy]
    namespaced: bool = True
    short: str = ""
    version: str = "v1"
    subs: str = ""
    categories: str = ""
    type: str = ""
    verbs: tuple[str, ...] = ALL_VERBS
    storage: str = ""


def _spec() -> Strategy:
    return others.SpecStrategy()


RBAC, STORAGE, APPS = "rbac.authorization.k8s.io", "storage.k8s.io", "apps"
ADMISSION, CRD, DRA = "admissionregistration.k8s.io", "apiextensions.k8s.io", "resource.k8s.io"
AUTHN, AUTHZ = "authentication.k8s.io", "authorization.k8s.io"
POD_SUBS = "status binding eviction log ephemeralcontainers resize attach exec portforward proxy"

LINES = (
    Line(
        "", "namespaces", "Namespace", core.NamespaceStrategy, False, "ns", subs="status finalize", verbs=NO_COLLECTION
    ),
    Line("", "nodes", "Node", core.NodeStrategy, False, "no", subs="status proxy"),
    Line("", "pods", "Pod", PodStrategy, short="po", subs=POD_SUBS, categories="all"),
    Line("", "podtemplates", "PodTemplate", workloads.TemplateStrategy),
    Line("", "events", "Event", lambda: others.EventStrategy(strict=False), short="ev", type="CoreV1Event"),
    Line("", "configmaps", "ConfigMap", core.ConfigMapStrategy, short="cm"),
    Line("", "secrets", "Secret", core.SecretStrategy),
    Line("", "services", "Service", core.ServiceStrategy, short="svc", subs="status proxy", categories="all"),
    Line("", "serviceaccounts", "ServiceAccount", core.ServiceAccountStrategy, short="sa", subs="token"),
    Line("", "persistentvolumes", "PersistentVolume", volumes.VolumeStrategy, False, "pv", subs="status"),
    Line("", "persistentvolumeclaims", "PersistentVolumeClaim", volumes.ClaimStrategy, short="pvc", subs="status"),
    Line(
        "",
        "replicationcontrollers",
        "ReplicationController",
        workloads.ReplicaSetStrategy,
        short="rc",
        subs="status scale",
        categories="all",
    ),
    Line("", "endpoints", "Endpoints", others.EndpointsStrategy, short="ep"),
    Line("", "limitranges", "LimitRange", limits.LimitRangeStrategy, short="limits"),
    Line("", "resourcequotas", "ResourceQuota", limits.QuotaStrategy, short="quota", subs="status"),
    Line(
        APPS,
        "deployments",
        "Deployment",
        workloads.WorkloadStrategy,
        short="deploy",
        subs="status scale",
        categories="all",
    ),
    Line(
        APPS,
        "replicasets",
        "ReplicaSet",
        workloads.ReplicaSetStrategy,
        short="rs",
        subs="status scale",
        categories="all",
    ),
    Line(
        APPS,
        "statefulsets",
        "StatefulSet",
        workloads.StatefulSetStrategy,
        short="sts",
        subs="status scale",
        categories="all",
    ),
    Line(APPS, "daemonsets", "DaemonSet", workloads.DaemonSetStrategy, short="ds", subs="status", categories="all"),
    Line(APPS, "controllerrevisions", "ControllerRevision", Strategy),
    Line("batch", "jobs", "Job", jobs.JobStrategy, subs="status", categories="all"),
    Line("batch", "cronjobs", "CronJob", jobs.CronJobStrategy, short="cj", subs="status", categories="all"),
    Line("coordination.k8s.io", "leases", "Lease", others.LeaseStrategy),
    Line(
        "events.k8s.io",
        "events",
        "Event",
        lambda: others.EventStrategy(strict=True),
        short="ev",
        type="CoreV1Event",
        storage="events",
    ),
    Line("policy", "poddisruptionbudgets", "PodDisruptionBudget", others.BudgetStrategy, short="pdb", subs="status"),
    Line("scheduling.k8s.io", "priorityclasses", "PriorityClass", others.PriorityClassStrategy, False, "pc"),
    Line(STORAGE, "storageclasses", "StorageClass", volumes.StorageClassStrategy, False, "sc"),
    Line(STORAGE, "csinodes", "CSINode", volumes.NodeDriversStrategy, False),
    Line(STORAGE, "csidrivers", "CSIDriver", volumes.DriverStrategy, False),
    Line(STORAGE, "csistoragecapacities", "CSIStorageCapacity", Strategy),
    Line(STORAGE, "volumeattachments", "VolumeAttachment", volumes.AttachmentStrategy, False, subs="status"),
    Line(RBAC, "roles", "Role", roles.RoleStrategy),
    Line(RBAC, "rolebindings", "RoleBinding", roles.RoleStrategy),
    Line(RBAC, "clusterroles", "ClusterRole", roles.RoleStrategy, False),
    Line(RBAC, "clusterrolebindings", "ClusterRoleBinding", roles.RoleStrategy, False),
    Line(ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", others.WebhookStrategy, False),
    Line(ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", others.WebhookStrategy, False),
    Line(
        ADMISSION,
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        others.PolicyStrategy,
        False,
        subs="status",
    ),
    Line(
        ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", others.PolicyStrategy, False
    ),
    Line("discovery.k8s.io", "endpointslices", "EndpointSlice", others.EndpointSliceStrategy),
    Line("node.k8s.io", "runtimeclasses", "RuntimeClass", Strategy, False),
    Line("networking.k8s.io", "networkpolicies", "NetworkPolicy", others.NetworkPolicyStrategy, short="netpol"),
    Line("networking.k8s.io", "ingresses", "Ingress", others.IngressStrategy, short="ing", subs="status"),
    Line("networking.k8s.io", "ingressclasses", "IngressClass", _spec, False),
    Line(DRA, "deviceclasses", "DeviceClass", devices.DeviceClassStrategy, False),
    Line(
        DRA,
        "resourceclaims",
        "ResourceClaim",
        devices.ResourceClaimStrategy,
        subs="status",
        type="ResourceV1ResourceClaim",
    ),
    Line(DRA, "resourceclaimtemplates", "ResourceClaimTemplate", devices.ClaimTemplateStrategy),
    Line(DRA, "resourceslices", "ResourceSlice", devices.ResourceSliceStrategy, False),
    *(
        Line(
            DRA, "devicetaintrules", "DeviceTaintRule", devices.TaintRuleStrategy, False, version=version, subs="status"
        )
        for version in ("v1", "v1beta2", "v1alpha3")
    ),
    Line(
        CRD,
        "customresourcedefinitions",
        "CustomResourceDefinition",
        DefinitionStrategy,
        False,
        "crd crds",
        subs="status",
        categories="api-extensions",
    ),
    Line("", "bindings", "Binding", Strategy, verbs=("create",)),
    Line(AUTHN, "selfsubjectreviews", "SelfSubjectReview", Strategy, False, verbs=("create",)),
    Line(AUTHN, "tokenreviews", "TokenReview", Strategy, False, verbs=("create",)),
    Line(AUTHZ, "selfsubjectaccessreviews", "SelfSubjectAccessReview", Strategy, False, verbs=("create",)),
    Line(AUTHZ, "selfsubjectrulesreviews", "SelfSubjectRulesReview", Strategy, False, verbs=("create",)),
    Line(AUTHZ, "subjectaccessreviews", "SubjectAccessReview", Strategy, False, verbs=("create",)),
    Line(AUTHZ, "localsubjectaccessreviews", "LocalSubjectAccessReview", Strategy, verbs=("create",)),
)

SUBRESOURCES: Mapping[str, Subresource] = {
    "binding": Subresource("Binding", ("create",)),
    "eviction": Subresource("Eviction", ("create",), "policy", "v1"),
    "log": Subresource("", ("get",)),
    "attach": Subresource("PodAttachOptions", ("create", "get")),
    "exec": Subresource("PodExecOptions", ("create", "get")),
    "portforward": Subresource("PodPortForwardOptions", ("create", "get")),
    "proxy": Subresource("", ("create", "delete", "get", "patch", "update")),
    "scale": Subresource("Scale", STATUS_VERBS, "autoscaling", "v1"),
    "token": Subresource("TokenRequest", ("create",), "authentication.k8s.io", "v1"),
    "finalize": Subresource("", ("update",)),
    "status": Subresource("", STATUS_VERBS),
    "ephemeralcontainers": Subresource("", STATUS_VERBS),
    "resize": Subresource("", STATUS_VERBS),
}

SELECTABLE: Mapping[str, Mapping[str, Getter]] = {
    "Pod": {
        name: path(name)
        for name in [
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ]
    }
    | {"spec.hostNetwork": flag("spec.hostNetwork")},
    "Node": {"spec.unschedulable": flag("spec.unschedulable")},
    "Namespace": {"status.phase": path("status.phase")},
    "Secret": {"type": path("type")},
    "Event": others.SELECTABLE,
    "Job": {"status.successful": path("status.succeeded")},
    "Service": {"spec.clusterIP": path("spec.clusterIP"), "spec.type": path("spec.type")},
    "ReplicationController": {"status.replicas": path("status.replicas")},
    "ReplicaSet": {"status.replicas": path("status.replicas")},
    "ResourceSlice": {"spec.nodeName": path("spec.nodeName"), "spec.driver": path("spec.driver")},
}


def _subresource(name: str, kind: str) -> Subresource:
    known = SUBRESOURCES[name]
    if known.kind:
        return known
    shown = {"log": "Pod", "proxy": f"{kind}ProxyOptions"}.get(name, kind)
    return Subresource(shown, known.verbs)


def build(line: Line) -> Resource:
    """The resource of a line."""
    resource = Resource(
        group=line.group,
        version=line.version,
        plural=line.plural,
        kind=line.kind,
        namespaced=line.namespaced,
        codec=PodCodec() if line.plural == "pods" else BuiltinCodec(line.type or line.kind),
        strategy=line.strategy(),
        short_names=tuple(line.short.split()),
        categories=tuple(line.categories.split()),
        verbs=line.verbs,
        subresources={name: _subresource(name, line.kind) for name in line.subs.split()},
        columns=_COLUMNS.get(line.kind, columns.DEFAULT),
        selectable={**METADATA, **SELECTABLE.get(line.kind, {})},
        plain=line.kind not in SELECTABLE,
        storage=line.storage,
        scale=SCALE if "scale" in line.subs.split() else None,
    )
    if line.group == "events.k8s.io":
        resource.inward, resource.outward = others.to_core, others.from_core
        resource.stored_as = "v1"
    elif line.kind == "DeviceTaintRule" and line.version != "v1":  # one shape in all versions
        resource.stored_as, shown = f"{DRA}/v1", f"{DRA}/{line.version}"
        resource.inward, resource.outward = dict, lambda obj: {**obj, "apiVersion": shown}
    return resource


def resources() -> list[Resource]:
    """All built-in resources, with strategies of their own."""
    return [build(line) for line in LINES]
