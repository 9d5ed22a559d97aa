"""Pod templates that API servers take and refuse in a Workload, ours and a real one alike."""

from __future__ import annotations

from typing import Any, NamedTuple

import yaml

from tests.api.manifests import manifest
from tutti.api import core
from tutti.api.quantity import MAX_LENGTH
from tutti.api.selectors import LabelSelector, LabelSelectorRequirement, NodeSelectorRequirement, Toleration
from tutti.api.templates import MOST_BYTES, MOST_ENTRIES, MOST_FIELDS, MOST_ITEMS, TemplateMeta

AT = "spec.podGroups[0].template"


class Refused(NamedTuple):
    """A template, the field that the server names (below the template), and what it says of it."""

    template: dict[str, Any]
    path: str
    message: str


def workload(template: Any) -> dict[str, Any]:
    """A Workload with a template."""
    found = manifest("Workload", "podGroups: [{count: 1}]")
    found["spec"]["podGroups"][0]["template"] = template
    return found


def of(text: str) -> dict[str, Any]:
    """The template with a spec that is written in YAML."""
    return {"spec": yaml.safe_load(text)}


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "x", **fields}]}}


def requests(amount: Any) -> dict[str, Any]:
    return container(resources={"requests": {"cpu": amount}})


def affinity(**fields: Any) -> dict[str, Any]:
    return {"spec": {"affinity": fields}}


CONTAINER = ".spec.containers[0]"
CPU = f"{CONTAINER}.resources.requests.cpu"
SECONDS = ".spec.tolerations[0].tolerationSeconds"
AMOUNT = r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?[0-9]+))?$"


def _long(most: int) -> str:
    return f"Too long: may not be more than {most} bytes"


def _many(given: int, most: int) -> str:
    return f"Too many: {given}: must have at most {most} items"


def _least(number: int) -> str:
    return f"should be greater than or equal to {number}"


def _most(number: int) -> str:
    return f"should be less than or equal to {number}"


def _type(wanted: str, have: str) -> str:
    return f'must be of type {wanted}: "{have}"'


AS_A_JOB_HAS_IT = """
metadata:
  creationTimestamp: null
  annotations: {a: b}
  labels: {app: "", example.com/team: A.b_c-1}
  finalizers: [a/b]
spec:
  activeDeadlineSeconds: 600
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions: [{key: a, operator: In, values: [b, ""]}, {key: cores, operator: Gt, values: ["8"]}]
          matchFields: [{key: metadata.name, operator: In, values: [n0]}]
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 100, preference: {matchExpressions: [{key: a, operator: Exists}]}}
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - labelSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: NotIn, values: [c]}]}
        topologyKey: kubernetes.io/hostname
        namespaces: [default]
        namespaceSelector: {}
        matchLabelKeys: [job-name]
        mismatchLabelKeys: [x]
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, podAffinityTerm: {labelSelector: {matchLabels: {a: b}}, topologyKey: topology.kubernetes.io/zone}}
  automountServiceAccountToken: false
  containers:
  - name: c
    image: registry.example.com:5000/a/b@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    command: [sh, -c]
    args: ["sleep 1"]
    env:
    - {name: A, value: b}
    - {name: NODE, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: spec.nodeName}}}
    - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: "0"}}}
    envFrom: [{configMapRef: {name: a}, prefix: X_}]
    imagePullPolicy: IfNotPresent
    lifecycle: {preStop: {httpGet: {path: /, port: http, scheme: HTTP}}, postStart: {exec: {command: [a]}}}
    livenessProbe: {httpGet: {path: /, port: http}, periodSeconds: 10, failureThreshold: 3}
    readinessProbe: {tcpSocket: {port: 8080}, timeoutSeconds: 1}
    startupProbe: {grpc: {port: 9, service: ""}}
    ports:
    - {containerPort: 8080, hostPort: 8080, hostIP: "::1", name: http, protocol: TCP}
    - {containerPort: 65535, protocol: SCTP}
    resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]
    resources:
      limits: {cpu: "1.5", memory: 1Gi, nvidia.com/gpu: "1", ephemeral-storage: 1e9, hugepages-2Mi: 4Mi}
      requests: {cpu: 500m, memory: 1073741824}
      claims: [{name: gpu, request: a}]
    securityContext: {runAsUser: 0, capabilities: {add: [NET_ADMIN], drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}
    stdin: true
    terminationMessagePath: /dev/termination-log
    volumeMounts: [{mountPath: /data, name: data, subPathExpr: $(NODE), mountPropagation: None}]
    volumeDevices: [{devicePath: /dev/x, name: block}]
    workingDir: /
  dnsConfig: {options: [{name: ndots, value: "2"}], nameservers: [1.1.1.1]}
  dnsPolicy: ClusterFirst
  enableServiceLinks: true
  hostAliases: [{ip: 127.0.0.1, hostnames: [a]}]
  hostNetwork: true
  hostUsers: true
  imagePullSecrets: [{name: a}]
  initContainers:
  - name: sidecar
    image: x
    restartPolicy: Always
    restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]
    resources: {}
  nodeSelector: {kubernetes.io/os: linux, empty: ""}
  os: {name: linux}
  overhead: {cpu: 250m, memory: 120Mi}
  preemptionPolicy: Never
  priority: -2147483648
  priorityClassName: system-cluster-critical
  readinessGates: [{conditionType: example.com/ready}]
  resourceClaims:
  - {name: gpu, resourceClaimTemplateName: gpu}
  - {name: other, resourceClaimName: mine}
  resources: {requests: {cpu: 2}, limits: {cpu: "2"}}
  restartPolicy: Never
  runtimeClassName: gvisor
  schedulerName: tutti
  schedulingGates: [{name: example.com/gate}]
  securityContext: {fsGroup: 1, sysctls: [{name: a, value: b}], supplementalGroups: [1, 2]}
  serviceAccountName: default
  terminationGracePeriodSeconds: 30
  tolerations:
  - {operator: Exists}
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 9223372036854775807}
  - {key: a, operator: Equal, value: b, effect: NoExecute, tolerationSeconds: -1}
  topologySpreadConstraints:
  - maxSkew: 2147483647
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: DoNotSchedule
    labelSelector: {matchLabels: {a: b}}
    minDomains: 2
    nodeAffinityPolicy: Honor
    nodeTaintsPolicy: Honor
    matchLabelKeys: [pod-template-hash]
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data, readOnly: true}}
  - {name: block, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce],
      resources: {requests: {storage: 1Gi}}}}}}
  - {name: empty, emptyDir: {medium: Memory, sizeLimit: 1Gi}}
  - {name: config, configMap: {name: a, defaultMode: 420, items: [{key: a, path: b}]}}
  - {name: secret, secret: {secretName: a, defaultMode: 420}}
  - {name: host, hostPath: {path: /, type: ""}}
  - {name: all, projected: {defaultMode: 420, sources: [{serviceAccountToken: {expirationSeconds: 3607, path: token}}]}}
  - {name: down, downwardAPI: {items: [{path: labels, fieldRef: {apiVersion: v1, fieldPath: metadata.labels}}]}}
  - {name: nfs, nfs: {server: a, path: /}}
  - {name: csi, csi: {driver: a, volumeAttributes: {a: b}}}
  - {name: google, gcePersistentDisk: {pdName: a, fsType: ext4, partition: 1, readOnly: true}}
  - {name: amazon, awsElasticBlockStore: {volumeID: a}}
  - {name: scsi, iscsi: {targetPortal: a, iqn: "iqn.2001-04.com.example:storage", lun: 0}}
  - {name: ceph, rbd: {monitors: ["a:1"], image: a, pool: rbd, readOnly: true}}
  - {name: image, image: {reference: a, pullPolicy: Always}}
"""

FROM_GO = """
metadata: {creationTimestamp: null, labels: null, annotations: null}
spec:
  nodeSelector: null
  affinity: {nodeAffinity: null, podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: null}, podAntiAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: null, namespaces: null, topologyKey: a}]}}
  tolerations: null
  priority: null
  containers:
  - {name: c, image: x, command: null, env: null, ports: null, resources: {requests: null, limits: null, claims: null}}
  initContainers: null
  overhead: null
  resources: null
  hostUsers: null
  topologySpreadConstraints: [{topologyKey: a, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, labelSelector: null,
    minDomains: null, matchLabelKeys: null}]
  volumes: [{name: v, persistentVolumeClaim: null, emptyDir: {sizeLimit: null}}]
  resourceClaims: [{name: a, resourceClaimName: null, resourceClaimTemplateName: b}]
  schedulingGates: null
  securityContext: null
"""

TAKEN: dict[str, dict[str, Any]] = {
    "nothing": {},
    "nothing but nulls": {"metadata": None, "spec": None},
    "as a server has it in a Job": yaml.safe_load(AS_A_JOB_HAS_IT),
    "as Go writes what is nil": yaml.safe_load(FROM_GO),
    "a fraction of a core": requests(0.5),
    "as much as is counted": requests("9223372036854775807"),
    "more than is counted, which is as much": requests("1e30"),
    "a field of a Kubernetes to come": {
        "spec": {"x": [{"y": [None, {"z": 1.5}]}], "containers": [{"name": "c", "x": {}}]}
    },
    "labels as long as they may be": {"metadata": {"labels": {"a" * 253 + "/" + "b" * 63: "c" * 63}}},
    "a thousand containers": {"spec": {"containers": [{"name": f"c{at}", "image": "x"} for at in range(1_000)]}},
    "a thousand variables": container(env=[{"name": f"A{at}", "value": "x" * 500} for at in range(1_000)]),
}

KEY = "a" * 253 + "/" + "b" * 64
"""A label key that is one character too long."""
VALUE = "x" * 64
SELECTOR = f"labelSelector: {{matchLabels: {{a: {VALUE}}}}}"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODES = f".spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].key"
_PREFERS = f".spec.affinity.nodeAffinity.{_PREFERRED}[0].weight"
_PODS = f".spec.affinity.podAffinity.{_REQUIRED}[0]"
_WEIGHS = f".spec.affinity.podAffinity.{_PREFERRED}[0].weight"


def _nodes(text: str) -> dict[str, Any]:
    return affinity(nodeAffinity=yaml.safe_load(text))


def _pods(text: str) -> dict[str, Any]:
    return affinity(podAffinity=yaml.safe_load(text))


def _spread(**fields: Any) -> dict[str, Any]:
    whole = {"topologyKey": "a", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **fields}
    return {"spec": {"topologySpreadConstraints": [whole]}}


def _ports(**fields: Any) -> dict[str, Any]:
    return container(ports=[fields])


BEYOND: dict[tuple[type, str], list[Refused]] = {
    # One more, or one less, than Kubernetes takes in a pod; a real server is shown the same in pods.
    (TemplateMeta, "labels"): [Refused({"metadata": {"labels": {"a": VALUE}}}, ".metadata.labels.a", _long(63))],
    (core.PodSpec, "nodeName"): [Refused(of(f"nodeName: {'x' * 254}"), ".spec.nodeName", _long(253))],
    (core.PodSpec, "nodeSelector"): [Refused(of(f"nodeSelector: {{a: {VALUE}}}"), ".spec.nodeSelector.a", _long(63))],
    (core.PodSpec, "priorityClassName"): [
        Refused(of(f"priorityClassName: {'x' * 254}"), ".spec.priorityClassName", _long(253))
    ],
    (core.Container, "name"): [Refused(container(name=VALUE), f"{CONTAINER}.name", _long(63))],
    (core.Volume, "name"): [
        Refused(of(f"volumes: [{{name: {VALUE}, emptyDir: {{}}}}]"), ".spec.volumes[0].name", _long(63))
    ],
    (core.SchedulingGate, "name"): [
        Refused(of(f"schedulingGates: [{{name: {KEY}}}]"), ".spec.schedulingGates[0].name", _long(317))
    ],
    (core.PodAffinityTerm, "topologyKey"): [
        Refused(_pods(f"{_REQUIRED}: [{{topologyKey: {KEY}}}]"), f"{_PODS}.topologyKey", _long(317))
    ],
    (Toleration, "key"): [
        Refused(of(f"tolerations: [{{key: {KEY}, operator: Exists}}]"), ".spec.tolerations[0].key", _long(317))
    ],
    (Toleration, "value"): [
        Refused(of(f"tolerations: [{{key: a, value: {VALUE}}}]"), ".spec.tolerations[0].value", _long(63))
    ],
    (LabelSelector, "matchLabels"): [
        Refused(
            _pods(f"{_REQUIRED}: [{{topologyKey: a, {SELECTOR}}}]"), f"{_PODS}.labelSelector.matchLabels.a", _long(63)
        )
    ],
    (LabelSelectorRequirement, "key"): [
        Refused(
            _pods(
                f"{_REQUIRED}: [{{topologyKey: a, labelSelector: {{matchExpressions: [{{key: {KEY}, operator: Exists}}]}}}}]"
            ),
            f"{_PODS}.labelSelector.matchExpressions[0].key",
            _long(317),
        )
    ],
    (NodeSelectorRequirement, "key"): [
        Refused(
            _nodes(f"{_REQUIRED}: {{nodeSelectorTerms: [{{matchExpressions: [{{key: {KEY}, operator: Exists}}]}}]}}"),
            _NODES,
            _long(317),
        )
    ],
    (core.ContainerPort, "containerPort"): [
        Refused(_ports(containerPort=0), f"{CONTAINER}.ports[0].containerPort", _least(1)),
        Refused(_ports(containerPort=65_536), f"{CONTAINER}.ports[0].containerPort", _most(65_535)),
    ],
    (core.ContainerPort, "hostPort"): [
        Refused(_ports(containerPort=1, hostPort=-1), f"{CONTAINER}.ports[0].hostPort", _least(0)),
        Refused(_ports(containerPort=1, hostPort=65_536), f"{CONTAINER}.ports[0].hostPort", _most(65_535)),
    ],
    (core.PreferredSchedulingTerm, "weight"): [
        Refused(_nodes(f"{_PREFERRED}: [{{weight: 0, preference: {{}}}}]"), _PREFERS, _least(1)),
        Refused(_nodes(f"{_PREFERRED}: [{{weight: 101, preference: {{}}}}]"), _PREFERS, _most(100)),
    ],
    (core.WeightedPodAffinityTerm, "weight"): [
        Refused(_pods(f"{_PREFERRED}: [{{weight: 0, podAffinityTerm: {{topologyKey: a}}}}]"), _WEIGHS, _least(1)),
        Refused(_pods(f"{_PREFERRED}: [{{weight: 101, podAffinityTerm: {{topologyKey: a}}}}]"), _WEIGHS, _most(100)),
    ],
    (core.TopologySpreadConstraint, "maxSkew"): [
        Refused(_spread(maxSkew=0), ".spec.topologySpreadConstraints[0].maxSkew", _least(1)),
        Refused(_spread(maxSkew=2**31), ".spec.topologySpreadConstraints[0].maxSkew", _most(2**31 - 1)),
    ],
    (core.TopologySpreadConstraint, "minDomains"): [
        Refused(_spread(minDomains=-1), ".spec.topologySpreadConstraints[0].minDomains", _least(0)),
        Refused(_spread(minDomains=2**31), ".spec.topologySpreadConstraints[0].minDomains", _most(2**31 - 1)),
    ],
}

RATCHETS: dict[str, tuple[list[dict[str, Any]], str]] = {
    # What may be done to `stored()`, and of which field the server complains; empty where it does not.
    "a status is written": ([{"op": "add", "path": "/status", "value": {"requeue": {"count": 1}}}], ""),
    "something else is changed": ([{"op": "add", "path": "/spec/active", "value": False}], ""),
    "something else of its pod group": ([{"op": "add", "path": "/spec/podGroups/0/minCount", "value": 1}], ""),
    "something else of its template": (
        [{"op": "add", "path": "/spec/podGroups/0/template/spec/hostNetwork", "value": True}],
        "",
    ),
    "a neighbour in a list that is wrong": (
        [{"op": "add", "path": "/spec/podGroups/0/template/spec/containers/0/image", "value": "y"}],
        f"{AT}{CPU}",
    ),
    "what is wrong becomes wrong otherwise": (
        [{"op": "add", "path": "/spec/podGroups/1/template/spec/containers", "value": "y"}],
        "spec.podGroups[1].template.spec.containers",
    ),
    "what is wrong is mended": ([{"op": "add", "path": "/spec/podGroups/1/template/spec/containers", "value": []}], ""),
}


def stored() -> dict[str, Any]:
    """A Workload as it was taken before templates had a schema."""
    found = workload(requests("-1"))
    found["spec"]["podGroups"].append({"name": "other", "count": 1, "template": of("containers: x")})
    return found


REFUSED: dict[str, Refused] = {
    # Wrong types: the view could not read them.
    "spec is a list": Refused({"spec": []}, ".spec", _type("object", "array")),
    "metadata is text": Refused({"metadata": "x"}, ".metadata", _type("object", "string")),
    "containers are an object": Refused(of("containers: {}"), ".spec.containers", _type("array", "object")),
    "a container is text": Refused(of("containers: [x]"), CONTAINER, _type("object", "string")),
    "a container is null": Refused(of("containers: [null]"), CONTAINER, _type("object", "null")),
    "host network is text": Refused(of("hostNetwork: 'true'"), ".spec.hostNetwork", _type("boolean", "string")),
    "a label is a number": Refused(
        {"metadata": {"labels": {"a": 1}}}, ".metadata.labels.a", _type("string", "integer")
    ),
    "priority is text": Refused(of("priority: high"), ".spec.priority", _type("integer", "string")),
    "affinity is a list": Refused(of("affinity: []"), ".spec.affinity", _type("object", "array")),
    # Quantities (ValidateNonnegativeQuantity; grammar of apimachinery, pkg/api/resource).
    "less than nothing, as text": Refused(requests("-1"), CPU, f"should match '{AMOUNT}'"),
    "less than nothing, as a number": Refused(requests(-1), CPU, "should be greater than or equal to 0"),
    "less than nothing, as a fraction": Refused(requests(-0.5), CPU, "should be greater than or equal to 0"),
    "no amount": Refused(requests("much"), CPU, f"should match '{AMOUNT}'"),
    "an amount of digits without end": Refused(requests("9" * (MAX_LENGTH + 1)), CPU, _long(MAX_LENGTH)),
    "an amount that is true": Refused(requests(True), CPU, "must not validate the schema (not)"),
    "an amount that is a list": Refused(requests([1]), CPU, _many(1, 0)),
    "an amount that is an empty list": Refused(requests([]), CPU, "should have at least 1 items"),
    "an amount that is an object": Refused(requests({"a": 1}), CPU, _many(1, 0)),
    "an amount that is an empty object": Refused(requests({}), CPU, "should have at least 1 properties"),
    "overhead below zero": Refused(of("overhead: {cpu: -1m}"), ".spec.overhead.cpu", f"should match '{AMOUNT}'"),
    # Numbers that no pod may have (pkg/apis/core/validation).
    "a priority beyond int32": Refused(of("priority: 2147483648"), ".spec.priority", _most(2**31 - 1)),
    "seconds as text": Refused(
        of("tolerations: [{key: a, tolerationSeconds: '1'}]"), SECONDS, _type("integer", "string")
    ),
    "seconds beyond int64": Refused(
        of("tolerations: [{key: a, tolerationSeconds: 9223372036854775808}]"), SECONDS, _type("int64", "float64")
    ),
    "a fraction of a second": Refused(
        of("tolerations: [{key: a, tolerationSeconds: 1.5}]"), SECONDS, _type("int64", "float64")
    ),
    # More than is kept of a template (api/templates.py, MOST_BYTES).
    "a name of a scheduler without end": Refused(
        of(f"schedulerName: {'x' * (MOST_BYTES + 1)}"), ".spec.schedulerName", _long(MOST_BYTES)
    ),
    "containers without end": Refused(
        {"spec": {"containers": [{}] * (MOST_ITEMS + 1)}}, ".spec.containers", _many(MOST_ITEMS + 1, MOST_ITEMS)
    ),
    "labels without end": Refused(
        {"metadata": {"labels": {f"k{at}": "" for at in range(MOST_ENTRIES + 1)}}},
        ".metadata.labels",
        _many(MOST_ENTRIES + 1, MOST_ENTRIES),
    ),
    # More fields than Kubernetes has of any object.
    "fields without end": Refused(
        {"spec": {f"k{at}": {} for at in range(MOST_FIELDS + 1)}}, ".spec", _many(MOST_FIELDS + 1, MOST_FIELDS)
    ),
}
