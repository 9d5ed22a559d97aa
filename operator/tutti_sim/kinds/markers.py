"""What the table of types does not say: quantities, micro times, list keys and which zero values are left out.

Sources: the `+patchMergeKey`, `+listType` and `+listMapKey` markers and the `omitempty` tags of the API types, 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping

QUANTITY_MAPS = frozenset(
    [
        "allocatable",
        "allocatedResources",
        "capacity",
        "consumedCapacity",
        "default",
        "defaultRequest",
        "hard",
        "limits",
        "max",
        "maxLimitRequestRatio",
        "min",
        "overhead",
        "podFixed",
        "requests",
        "used",
    ]
)
QUANTITIES = frozenset(
    {
        "EmptyDirVolumeSource.sizeLimit",
        "ResourceFieldSelector.divisor",
        "CSIStorageCapacity.capacity",
        "CSIStorageCapacity.maximumVolumeSize",
        "CapacityRequestPolicy.default",
        "CapacityRequestPolicy.validValues",
        "CapacityRequestPolicyRange.max",
        "CapacityRequestPolicyRange.min",
        "CapacityRequestPolicyRange.step",
        "Counter.value",
        "DeviceCapacity.value",
    }
)
MICRO_TIMES = frozenset(
    {
        "LeaseSpec.acquireTime",
        "LeaseSpec.renewTime",
        "CoreV1Event.eventTime",
        "EventsV1Event.eventTime",
        "CoreV1EventSeries.lastObservedTime",
        "EventsV1EventSeries.lastObservedTime",
    }
)
INT_OR_STRING = frozenset(
    {
        "ServicePort.targetPort",
        "HTTPGetAction.port",
        "TCPSocketAction.port",
        "PodDisruptionBudgetSpec.minAvailable",
        "PodDisruptionBudgetSpec.maxUnavailable",
        "RollingUpdateDeployment.maxSurge",
        "RollingUpdateDeployment.maxUnavailable",
        "RollingUpdateDaemonSet.maxSurge",
        "RollingUpdateDaemonSet.maxUnavailable",
        "RollingUpdateStatefulSetStrategy.maxUnavailable",
        "NetworkPolicyPort.port",
    }
)

# Strings whose empty value means something, so that it is kept.
KEEP_EMPTY = frozenset(
    {
        "podReplacementPolicy",
        "preemptionPolicy",
        "unhealthyPodEvictionPolicy",
        "completionMode",
        "storageClassName",
        "volumeAttributesClassName",
        "holderIdentity",
        "group",
    }
)
KEEP_EMPTY_AT = frozenset(
    {
        "AllocatedDeviceStatus.shareID",
        "AppArmorProfile.localhostProfile",
        "Container.restartPolicy",
        "Device.nodeName",
        "DeviceAttribute.string",
        "DeviceAttribute.version",
        "DeviceClassSpec.extendedResourceName",
        "DeviceConstraint.distinctAttribute",
        "DeviceConstraint.matchAttribute",
        "DeviceRequestAllocationResult.shareID",
        "PodSecurityContext.fsGroupChangePolicy",
        "PodSecurityContext.seLinuxChangePolicy",
        "PodSecurityContext.supplementalGroupsPolicy",
        "PodSpec.hostnameOverride",
        "ResourceSliceSpec.nodeName",
        "SeccompProfile.localhostProfile",
        "SecurityContext.procMount",
        "VolumeMount.mountPropagation",
        "VolumeMount.recursiveReadOnly",
        "WindowsSecurityContextOptions.gmsaCredentialSpec",
        "WindowsSecurityContextOptions.gmsaCredentialSpecName",
        "WindowsSecurityContextOptions.runAsUserName",
    }
)
# Booleans and numbers that are left out when they are false or zero, because Go does not tell that from absent.
DROP_FALSE = frozenset(
    [
        "deprecated",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "globalDefault",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "nullable",
        "paused",
        "preserveUnknownFields",
        "publishNotReadyAddresses",
        "readOnly",
        "setAsDefault",
        "stdin",
        "stdinOnce",
        "tty",
        "unschedulable",
        "uniqueItems",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ]
)
DROP_ZERO = frozenset(
    [
        "active",
        "availableReplicas",
        "count",
        "currentReplicas",
        "deprecatedCount",
        "failed",
        "fullyLabeledReplicas",
        "generation",
        "hostPort",
        "minReadySeconds",
        "nodePort",
        "observedGeneration",
        "readyReplicas",
        "succeeded",
        "unavailableReplicas",
        "updatedReplicas",
        "weight",
    ]
)
KEEP_ZERO_IN = frozenset({"PreferredSchedulingTerm", "WeightedPodAffinityTerm", "ReplicaSetStatus", "ScaleStatus"})

# Lists of objects: the key a strategic merge patch joins items by, and the keys that server-side apply tells them
# apart by. A list that is not named here is replaced as a whole.
_ITEM_KEYS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Container.ports": ("containerPort", ("containerPort", "protocol")),
    "Container.env": ("name", ("name",)),
    "Container.volumeMounts": ("mountPath", ("mountPath",)),
    "Container.volumeDevices": ("devicePath", ("devicePath",)),
    "EphemeralContainer.ports": ("containerPort", ("containerPort", "protocol")),
    "EphemeralContainer.env": ("name", ("name",)),
    "EphemeralContainer.volumeMounts": ("mountPath", ("mountPath",)),
    "EphemeralContainer.volumeDevices": ("devicePath", ("devicePath",)),
    "PodSpec.containers": ("name", ("name",)),
    "PodSpec.initContainers": ("name", ("name",)),
    "PodSpec.ephemeralContainers": ("name", ("name",)),
    "PodSpec.volumes": ("name", ("name",)),
    "PodSpec.imagePullSecrets": ("name", ("name",)),
    "PodSpec.hostAliases": ("ip", ("ip",)),
    "PodSpec.topologySpreadConstraints": ("topologyKey", ("topologyKey", "whenUnsatisfiable")),
    "PodSpec.schedulingGates": ("name", ("name",)),
    "PodSpec.resourceClaims": ("name", ("name",)),
    "ResourceClaimStatus.reservedFor": ("uid", ("uid",)),
    "ResourceClaimStatus.devices": ("", ("driver", "device", "pool", "shareID")),
    "PodStatus.podIPs": ("ip", ("ip",)),
    "PodStatus.hostIPs": ("ip", ()),
    "PodStatus.resourceClaimStatuses": ("name", ("name",)),
    "NodeStatus.addresses": ("type", ("type",)),
    "ServiceSpec.ports": ("port", ("port", "protocol")),
    "ServiceAccount.secrets": ("name", ("name",)),
    "ServiceAccount.imagePullSecrets": ("name", ()),
    "ObjectMeta.ownerReferences": ("uid", ("uid",)),
    "ResourceRequirements.claims": ("", ("name",)),
    "ValidatingWebhookConfiguration.webhooks": ("name", ("name",)),
    "MutatingWebhookConfiguration.webhooks": ("name", ("name",)),
    "ValidatingWebhook.matchConditions": ("name", ("name",)),
    "ValidatingAdmissionPolicySpec.matchConditions": ("name", ("name",)),
    "ValidatingAdmissionPolicySpec.variables": ("name", ("name",)),
    "ValidatingAdmissionPolicyStatus.conditions": ("", ("type",)),
    "MutatingWebhook.matchConditions": ("name", ("name",)),
    "CSINodeSpec.drivers": ("name", ("name",)),
    "CustomResourceDefinitionStatus.conditions": ("", ("type",)),
    "JSONSchemaProps.x-kubernetes-validations": ("rule", ("rule",)),
}
SETS = frozenset({"ObjectMeta.finalizers", "NodeSpec.podCIDRs", "LoadBalancerIngress.ports"})
MERGED_SETS = frozenset({"ObjectMeta.finalizers", "NodeSpec.podCIDRs"})
ATOMIC = frozenset(
    {
        "LabelSelector",
        "NodeSelector",
        "NodeSelectorTerm",
        "SecretKeySelector",
        "ConfigMapKeySelector",
        "ObjectFieldSelector",
        "ResourceFieldSelector",
        "LocalObjectReference",
        "ObjectReference",
        "SecretReference",
        "TypedLocalObjectReference",
        "ScopeSelector",
        "RoleRef",
        "OwnerReference",
    }
)
# Objects of an atomic type, whose parts have owners of their own here.
GRANULAR = frozenset({"PersistentVolumeSpec.claimRef"})
# Objects that a strategic merge patch puts in place of what was there.
REPLACED = frozenset({"PodDisruptionBudgetSpec.selector"})
ATOMIC_FIELDS = frozenset({"PodSpec.nodeSelector", "ServiceSpec.selector", "PersistentVolumeClaimSpec.dataSource"})

# Objects that Go holds by value: they are in an object from its beginning, also where nobody has set anything in them.
_BY_VALUE: Mapping[str, frozenset[str]] = {
    "AllocationResult": frozenset(["devices"]),
    "Binding": frozenset(["target"]),
    "ClusterRoleBinding": frozenset(["roleRef"]),
    "Container": frozenset(["resources"]),
    "CoreV1Event": frozenset(["source", "involvedObject", "eventTime", "firstTimestamp", "lastTimestamp"]),
    "CronJobSpec": frozenset(["jobTemplate"]),
    "CustomResourceDefinitionSpec": frozenset(["names"]),
    "CustomResourceDefinitionStatus": frozenset(["acceptedNames"]),
    "DaemonSetSpec": frozenset(["template", "updateStrategy"]),
    "DeploymentSpec": frozenset(["strategy", "template"]),
    "IngressStatus": frozenset(["loadBalancer"]),
    "JobSpec": frozenset(["template"]),
    "NetworkPolicySpec": frozenset(["podSelector"]),
    "NodeDaemonEndpoints": frozenset(["kubeletEndpoint"]),
    "NodeStatus": frozenset(["daemonEndpoints", "nodeInfo"]),
    "PersistentVolumeClaimSpec": frozenset(["resources"]),
    "PodTemplate": frozenset(["template"]),
    "ReplicaSetSpec": frozenset(["template"]),
    "ResourceClaimSpec": frozenset(["devices"]),
    "ResourceSliceSpec": frozenset(["pool"]),
    "RoleBinding": frozenset(["roleRef"]),
    "ServiceStatus": frozenset(["loadBalancer"]),
    "StatefulSetSpec": frozenset(["template", "updateStrategy"]),
    "VolumeAttachmentSpec": frozenset(["source"]),
}
_ALWAYS = frozenset(["metadata", "spec", "status"])
# Whole numbers of 64 bits; all others have 32.
_INT64 = frozenset(
    [
        "CSIDriverSpec.nodeAllocatableUpdatePeriodSeconds",
        "ContainerImage.sizeBytes",
        "ControllerRevision.revision",
        "CronJobSpec.startingDeadlineSeconds",
        "DeleteOptions.gracePeriodSeconds",
        "DeviceAttribute.int",
        "DeviceAttribute.ints",
        "DeviceSubRequest.count",
        "ExactDeviceRequest.count",
        "JSONSchemaProps.maxItems",
        "JSONSchemaProps.maxLength",
        "JSONSchemaProps.maxProperties",
        "JSONSchemaProps.minItems",
        "JSONSchemaProps.minLength",
        "JSONSchemaProps.minProperties",
        "JobSpec.activeDeadlineSeconds",
        "LinuxContainerUser.gid",
        "LinuxContainerUser.uid",
        "ListMeta.remainingItemCount",
        "NodeSwapStatus.capacity",
        "PodSpec.activeDeadlineSeconds",
        "ResourcePool.generation",
        "ResourcePool.resourceSliceCount",
        "SleepAction.seconds",
    ]
)
_INT64_NAMES = frozenset(
    [
        "defaultUser",
        "deletionGracePeriodSeconds",
        "expirationSeconds",
        "fsGroup",
        "generation",
        "observedGeneration",
        "runAsGroup",
        "runAsUser",
        "supplementalGroups",
        "terminationGracePeriodSeconds",
        "tolerationSeconds",
        "user",
    ]
)


def item_keys(owner: str, field: str) -> tuple[str, tuple[str, ...]] | None:
    """The merge key and the map keys of a list field; None where the list is atomic."""
    found = _ITEM_KEYS.get(f"{owner}.{field}")
    if found is None and field == "conditions":
        return ("type", ("type",))
    return found


def by_value(owner: str) -> frozenset[str]:
    """The fields of a type that are there from the beginning, as objects."""
    return _ALWAYS | _BY_VALUE.get(owner, frozenset())


def is_long(owner: str, field: str) -> bool:
    """Whether a whole number, or each of a list, has 64 bits, and not 32."""
    return field in _INT64_NAMES or f"{owner}.{field}" in _INT64
