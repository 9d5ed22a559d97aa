"""Labels that controllers give all pods of an object, or of a role of it, beside those of its template.

Constraints select by them: to have no two pods of a Job on one node, most write its name. Who is promised is placed as
such a pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_JOBSET: Final = "jobset.sigs.k8s.io/"
_JOB: Final = "batch.kubernetes.io/"


def controller_labels(group: str, kind: str, name: str, uid: str, role: str, jobs: int) -> Mapping[str, str]:
    """Return what pods of a role of an object will be labelled with; nothing of kinds of which that is not known.

    Of a JobSet they have the name of their Job, too; it is not known which where there are several `jobs` of a role.
    """
    match group, kind:
        case "batch", "Job":
            return {**_of_job(name), "controller-uid": uid, f"{_JOB}controller-uid": uid}
        case "jobset.x-k8s.io", "JobSet":
            return {**_of_role(name, role, jobs), f"{_JOBSET}jobset-uid": uid}
        case "trainer.kubeflow.org", "TrainJob":  # its JobSet is called as it is
            return _of_role(name, role, jobs)
        case _:
            return {}


def _of_job(name: str) -> dict[str, str]:
    return {"job-name": name, f"{_JOB}job-name": name}


def _of_role(name: str, role: str, jobs: int) -> dict[str, str]:
    job = _of_job(f"{name}-{role}-0") if jobs == 1 else {}
    return {**job, f"{_JOBSET}jobset-name": name, f"{_JOBSET}replicatedjob-name": role}
