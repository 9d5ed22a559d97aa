"""Pods as the controllers of JobSet and KubeRay make them, with what stands between them and their object."""

from __future__ import annotations

from tests.api.frameworks import shapes
from tests.api.frameworks.owners import Objects
from tutti.api.frameworks import PodMarks

JOBSET = "jobset.sigs.k8s.io/"


def jobset_labels(role: str, index: int = 0, attempt: int = 0) -> dict[str, str]:
    return {
        f"{JOBSET}replicatedjob-name": role,
        f"{JOBSET}job-index": str(index),
        f"{JOBSET}restart-attempt": str(attempt),
    }


def jobset_pod(
    objects: Objects, role: str, index: int = 0, *, attempt: int = 0, jobset: str = "js", completion: int = 0
):
    """A pod of a JobSet, with the Job between them (api/jobset/v1alpha2, constants)."""
    job = f"{jobset}-{role}-{index}"
    if f"Job/{job}" not in objects.raw:
        objects.add(shapes.job_of(job, f"JobSet/{jobset}"))
    labels = jobset_labels(role, index, attempt) | {"batch.kubernetes.io/job-completion-index": str(completion)}
    return objects.pod(f"{job}-{completion}-x", f"Job/{job}", labels=labels)


def ray_pod(objects: Objects, group: str, cluster: str = "ray") -> PodMarks:
    """Labels as KubeRay's utils/constant.go names them; the head's group is `headgroup`."""
    labels = {"ray.io/group": group, "ray.io/cluster": cluster}
    return objects.pod(f"{cluster}-{group}-x", f"RayCluster/{cluster}", labels=labels)
