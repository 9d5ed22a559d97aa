"""The kinds users write, one module each, and the one way to read them."""

from tutti.api.kinds.cluster_queue import ClusterQueue
from tutti.api.kinds.cohort import Cohort
from tutti.api.kinds.frame import Object
from tutti.api.kinds.local_queue import LocalQueue
from tutti.api.kinds.parsing import KINDS, ObjectError, parse_object
from tutti.api.kinds.pod_group import PodGroup
from tutti.api.kinds.resource_flavor import ResourceFlavor
from tutti.api.kinds.topology import Topology
from tutti.api.kinds.workload import Workload
from tutti.api.kinds.workload_priority_class import WorkloadPriorityClass

__all__ = [
    "KINDS",
    "ClusterQueue",
    "Cohort",
    "LocalQueue",
    "Object",
    "ObjectError",
    "PodGroup",
    "ResourceFlavor",
    "Topology",
    "Workload",
    "WorkloadPriorityClass",
    "parse_object",
]
