"""The check of what pods have written on them: a key that nobody reads, and is nearly one that somebody does.

Such a pod is not refused, and nothing is missing either: it runs alone, as a pod that names no gang and no queue does.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import AsyncIterator, Iterator
from types import MappingProxyType
from typing import Final

from tutti.api.conventions.named_groups import POD_GROUP, PRIORITY_CLASS, QUEUE_NAME, TUTTI_KEYS, WORKLOAD
from tutti.api.conventions.order_annotations import EXPECTED_SECONDS, PROGRESS, USER
from tutti.api.conventions.speed_by_members import SPEED_BY_MEMBERS
from tutti.api.data_locality import DATASET_LABEL
from tutti.api.frameworks.fields import FieldReader
from tutti.api.frameworks.kinds import GANG_ANNOTATION, MIN_MEMBER_ANNOTATION
from tutti.api.frameworks.projection import RUN_TIME_LABELS
from tutti.api.interference import BEHAVIOUR_LABEL
from tutti.api.kinds.consolidation import MOVABLE_ANNOTATION
from tutti.api.messages import counted
from tutti.api.pod_scheduler import SCHEDULER_LABEL
from tutti.api.shards import SHARD_ANNOTATION
from tutti.cli.doctor.findings import Finding, good, warning
from tutti.cli.doctor.reading import Json, Patient
from tutti.cli.views.configuration import configuration_in
from tutti.engine.records.gang_membership import GATE_ANNOTATION
from tutti.kube.resources import PODS

LABELS: Final = frozenset((QUEUE_NAME, POD_GROUP, WORKLOAD, PRIORITY_CLASS, DATASET_LABEL, BEHAVIOUR_LABEL))
"""What is read of a pod's labels."""
ANNOTATIONS: Final = (
    frozenset((*TUTTI_KEYS, EXPECTED_SECONDS, PROGRESS, USER, SPEED_BY_MEMBERS, MOVABLE_ANNOTATION)) - LABELS
)
"""What is read of its annotations."""
_OF_OTHERS: Final = frozenset(
    (RUN_TIME_LABELS[0], MIN_MEMBER_ANNOTATION, GANG_ANNOTATION, SCHEDULER_LABEL, GATE_ANNOTATION, SHARD_ANNOTATION)
)
"""What is read of owners, namespaces and nodes, and may be copied to pods; and what is written on pods."""
_DOMAINS: Final = ("scheduling", "scheduler", "tutti")
"""How a domain begins that is taken for ours, if `tutti` is in it."""
_ALIKE: Final = 0.75  # pod-groups and podgroup are more, and all that we write ourselves is less
_SHORT: Final = 5
_LONGEST: Final = 317  # of a key of a label: a domain of 253, and a name of 63


async def labels_check(patient: Patient) -> AsyncIterator[Finding]:
    """Look for pods of ours with a label that is nearly one that is read, or with an annotation in a label's place."""
    ours = set((await configuration_in(patient.client)).configuration.scheduler_names)
    mistaken: dict[tuple[str, str], list[str]] = {}
    for pod in await patient.each(PODS):
        if FieldReader(pod).text("spec.schedulerName") in ours:
            for found in mistaken_keys(pod):
                mistaken.setdefault(found, []).append(f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}")
    for (written, meant), pods in sorted(mistaken.items()):
        text = f"nobody reads {written} of {counted(len(pods), 'pod')}, as {pods[0]}: they run as if it were not there"
        yield warning("labels", text, f"write the {meant} where these pods are made")
    if not mistaken:
        yield good("labels", "no pod of ours has one that is nearly what is read")


def mistaken_keys(pod: Json) -> Iterator[tuple[str, str]]:
    """Give what is written on a pod that nobody reads, and what was meant by it, each as `label KEY`."""
    said = FieldReader(pod["metadata"])
    for kind, mine, other, others in (
        ("label", LABELS, "annotation", ANNOTATIONS),
        ("annotation", ANNOTATIONS, "label", LABELS),
    ):
        written, elsewhere = said.mapping(f"{kind}s").keys(), said.mapping(f"{other}s").keys()
        for key in written - mine:
            if key in others:
                meant, its_kind = key, other
            elif _is_meant_for_us(key):
                meant = _nearest(key)
                its_kind = "label" if meant in LABELS else "annotation"
            else:
                continue
            if meant and meant not in (written if its_kind == kind else elsewhere):
                yield f"{kind} {key}", f"{its_kind} {meant}"


def _is_meant_for_us(key: str) -> bool:
    """Whether somebody who wrote a key that is none may have thought of Tutti."""
    parts = key[:_LONGEST].rpartition("/")[0].lower().split(".")
    return "tutti" in parts and parts[0] in _DOMAINS and key not in _OF_OTHERS


def _plain(key: str) -> str:
    return re.sub("[^a-z]", "", key.rpartition("/")[2].lower())


_NAMED: Final = MappingProxyType({_plain(one): one for one in sorted(LABELS | ANNOTATIONS)})


@functools.lru_cache(maxsize=1024)
def _nearest(key: str) -> str:
    """Return the key that is read whose name is most like that of another one; "" where none is like it."""
    name = _plain(key[-_LONGEST:])
    begun = [one for one in _NAMED if min(len(one), len(name)) >= _SHORT and _begins(one, name)]
    if begun:
        return _NAMED[min(begun, key=lambda one: abs(len(one) - len(name)))]
    alike = difflib.get_close_matches(name, _NAMED, n=1, cutoff=_ALIKE)
    return _NAMED[alike[0]] if alike else ""


def _begins(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)
