"""The kinds users write, one module each, and the one way to read them."""

from tutti.api.kinds.checks import AdmissionCheck
from tutti.api.kinds.cohort import Cohort
from tutti.api.kinds.flavors import ResourceFlavor, Topology
from tutti.api.kinds.parsing import KINDS, ObjectError, parse_object
from tutti.api.kinds.pod_group import PodGroup
from tutti.api.kinds.queues import ClusterQueue, LocalQueue
from tutti.api.kinds.workload import Workload, WorkloadPriorityClass
from tutti.api.model import Object

__all__ = [
    "KINDS",
    "AdmissionCheck",
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
