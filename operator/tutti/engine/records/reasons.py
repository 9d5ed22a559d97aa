"""Why a workload is taken out, in the words of its conditions."""

from __future__ import annotations

import enum


class Reason(enum.StrEnum):
    """Why a workload is taken out.

    After PODS_READY_TIMEOUT it waits as `spec.requeue` of its Workload says, and is set inactive when that has
    happened too often; after BIND_WINDOW_OVER it waits as the configuration says; after MEMBER_LOST it goes before the
    others of its priority; after the others it does not wait for anything, though one that is inactive, or whose queue
    is stopped, is not admitted before that ends.
    """

    PREEMPTED = "Preempted"
    PODS_READY_TIMEOUT = "PodsReadyTimeout"
    CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    DEACTIVATED = "Deactivated"
    NODE_FAILURES = "NodeFailures"
    BIND_WINDOW_OVER = "BindWindowOver"
    MEMBER_LOST = "MemberLost"


class Cause(enum.StrEnum):
    """Why a workload is set inactive by us."""

    REQUEUING_LIMIT_EXCEEDED = "RequeuingLimitExceeded"
    MEMBER_FAILED = "MemberFailed"
    MAXIMUM_EXECUTION_TIME_EXCEEDED = "MaximumExecutionTimeExceeded"
