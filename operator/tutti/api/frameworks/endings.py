"""How an object that makes pods has ended, by what its controller writes into its status.

Conditions: `Complete` of a Job (Kubernetes 1.36, batch/v1) and of a TrainJob (Trainer 8c0f5059), `Completed` of a
JobSet (08dfbdfd), `Succeeded` of the kinds of Kubeflow's training-operator (release-1.9) and of an MPIJob (caa3c47),
`Failed` of all of them. A RayJob (KubeRay feeaf72f) and a SparkApplication (38082f33) have a word in a field instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from tutti.api.frameworks.fields import FieldReader

_CONDITIONS: Final[Mapping[str, str]] = MappingProxyType(
    {"Complete": "Succeeded", "Completed": "Succeeded", "Succeeded": "Succeeded", "Failed": "Failed"}
)
_FIELDS: Final = ("status.jobStatus", "status.applicationState.state")
_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "SUCCEEDED": "Succeeded",
        "COMPLETED": "Succeeded",
        "FAILED": "Failed",
        "STOPPED": "Failed",
        "SUBMISSION_FAILED": "Failed",
    }
)
_MOST_CONDITIONS: Final = 64


def how_ended(raw: Any) -> str:
    """Return how an object has ended: Succeeded or Failed; "" while it has not, or nobody says.

    A status that cannot be read says nothing, and is no problem of who wrote the object.
    """
    reader = FieldReader(raw, problems=[])
    for path in _FIELDS:
        if word := _WORDS.get(reader.text(path)):
            return word
    conditions = reader.entries("status.conditions", _MOST_CONDITIONS)
    said = {one.text("type") for one in conditions if one.text("status") == "True"}
    ended = [how for kind, how in _CONDITIONS.items() if kind in said]
    return "Failed" if "Failed" in ended else next(iter(ended), "")
