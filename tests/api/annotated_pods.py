"""Pods that say by annotations which gang they are in, and the settings by which these are read."""

from __future__ import annotations

import msgspec

from tutti.api.configuration import Conventions
from tutti.api.core import Pod

SETTINGS = Conventions()
KOORD = "gang.scheduling.koordinator.sh/"
YUNIKORN = "yunikorn.apache.org/"


def annotated(**annotations: str) -> Pod:
    raw = {"metadata": {"name": "p", "namespace": "ml", "uid": "u1", "annotations": annotations}}
    return msgspec.convert(raw, Pod)


def pfnet(**suffixes: str) -> Pod:
    prefix = "gang-scheduling.preferred.jp/gang-"
    return annotated(**{prefix + key.replace("_", "-"): value for key, value in suffixes.items()})


def near_by(project: str = "kueue.x-k8s.io", **notes: str) -> Pod:
    """A pod of a Kueue queue with these annotations on topology."""
    pod = annotated(**{f"{project}/podset-{key.replace('_', '-')}": text for key, text in notes.items()})
    pod.metadata.labels["kueue.x-k8s.io/queue-name"] = "q"
    return pod
