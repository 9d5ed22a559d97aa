"""Field numbers of the types that clients send in protobuf: the place of a name in its line is its number.

A dash stands for a number that is not used any more, or not understood here.
"""

from __future__ import annotations

from collections.abc import Mapping

_OBJECT = "metadata spec status"

_LINES = {
    "ObjectMeta": "name generateName namespace selfLink uid resourceVersion generation creationTimestamp "
    "deletionTimestamp deletionGracePeriodSeconds labels annotations ownerReferences finalizers",
    "OwnerReference": "kind - name uid apiVersion controller blockOwnerDeletion",
    "LabelSelector": "matchLabels matchExpressions",
    "LabelSelectorRequirement": "key operator values",
    "DeleteOptions": "gracePeriodSeconds preconditions orphanDependents propagationPolicy dryRun",
    "Preconditions": "uid resourceVersion",
    "Namespace": _OBJECT,
    "NamespaceSpec": "finalizers",
    "ConfigMap": "metadata data binaryData immutable",
    "Secret": "metadata data type stringData immutable",
    "ServiceAccount": "metadata secrets imagePullSecrets automountServiceAccountToken",
    "ResourceQuota": _OBJECT,
    "ResourceQuotaSpec": "hard scopes",
    "Pod": _OBJECT,
    "PodTemplateSpec": "metadata spec",
    "PodSpec": "volumes containers restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy "
    "nodeSelector serviceAccountName serviceAccount nodeName hostNetwork hostPID hostIPC securityContext "
    "imagePullSecrets hostname subdomain affinity schedulerName initContainers automountServiceAccountToken "
    "tolerations hostAliases priorityClassName priority dnsConfig shareProcessNamespace readinessGates "
    "runtimeClassName enableServiceLinks preemptionPolicy overhead topologySpreadConstraints",
    "Container": "name image command args workingDir ports env resources volumeMounts livenessProbe readinessProbe "
    "lifecycle terminationMessagePath imagePullPolicy securityContext stdin stdinOnce tty envFrom "
    "terminationMessagePolicy",
    "ContainerPort": "name hostPort containerPort protocol hostIP",
    "EnvVar": "name value",
    "ResourceRequirements": "limits requests",
    "Service": _OBJECT,
    "ServiceSpec": "ports selector clusterIP type externalIPs - sessionAffinity loadBalancerIP "
    "loadBalancerSourceRanges externalName externalTrafficPolicy healthCheckNodePort publishNotReadyAddresses",
    "ServicePort": "name protocol port targetPort nodePort appProtocol",
    "Binding": "metadata target",
    "ObjectReference": "kind namespace name uid apiVersion resourceVersion fieldPath",
    "Deployment": _OBJECT,
    "DeploymentSpec": "replicas selector template strategy minReadySeconds revisionHistoryLimit paused - "
    "progressDeadlineSeconds",
    "DeploymentStrategy": "type",
    "Job": _OBJECT,
    "JobSpec": "parallelism completions activeDeadlineSeconds selector manualSelector template backoffLimit "
    "ttlSecondsAfterFinished completionMode suspend",
    "CronJob": _OBJECT,
    "CronJobSpec": "schedule startingDeadlineSeconds concurrencyPolicy suspend jobTemplate "
    "successfulJobsHistoryLimit failedJobsHistoryLimit timeZone",
    "JobTemplateSpec": "metadata spec",
    "PodDisruptionBudget": _OBJECT,
    "PodDisruptionBudgetSpec": "minAvailable selector maxUnavailable unhealthyPodEvictionPolicy",
    "Role": "metadata rules",
    "ClusterRole": "metadata rules",
    "PolicyRule": "verbs apiGroups resources resourceNames nonResourceURLs",
    "RoleBinding": "metadata subjects roleRef",
    "ClusterRoleBinding": "metadata subjects roleRef",
    "RbacV1Subject": "kind apiGroup name namespace",
    "RoleRef": "apiGroup kind name",
    "PriorityClass": "metadata value globalDefault description preemptionPolicy",
    "AuthenticationV1TokenRequest": _OBJECT,
    "TokenRequestSpec": "audiences - boundObjectRef expirationSeconds",
    "SelfSubjectAccessReview": _OBJECT,
    "SelfSubjectAccessReviewSpec": "resourceAttributes nonResourceAttributes",
    "ResourceAttributes": "namespace verb group version resource subresource name",
    "NonResourceAttributes": "path verb",
    "SelfSubjectReview": "metadata status",
    "SelfSubjectRulesReview": _OBJECT,
    "SelfSubjectRulesReviewSpec": "namespace",
    "Eviction": "metadata deleteOptions",
    "Scale": _OBJECT,
    "ScaleSpec": "replicas",
}

NUMBERS: Mapping[str, tuple[str, ...]] = {name: tuple(line.split()) for name, line in _LINES.items()}
