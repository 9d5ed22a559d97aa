"""Manifests as Kueue's users write them, and what is made of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import yaml

from tutti.cli.migrate.kueue.jobs import Run
from tutti.cli.migrate.kueue.resources import KnownQueues
from tutti.cli.migrate.kueue.rewriting import rewrite
from tutti.cli.migrate.streams import Migrated, documents, migrate

KUEUES = "kueue.x-k8s.io/"


def submitted(text: str, *, suspend: str = "spec", **metadata: Any) -> str:
    """An object as Kueue's users submit it: in a queue, and held back."""
    raw = yaml.safe_load(text.replace("schedulerName: tutti, ", "").replace(", schedulerName: tutti", ""))
    raw.pop("status", None)
    raw["metadata"] = {"name": raw["metadata"]["name"], "labels": {f"{KUEUES}queue-name": "team"}, **metadata}
    at = raw
    for step in suspend.split(".") if suspend else []:
        at = at.setdefault(step, {})
    if suspend:
        at["suspend"] = True
    return yaml.safe_dump(raw, sort_keys=False)


def kueue(text: str) -> Migrated:
    """What a manifest of one or several objects is migrated to."""
    known = KnownQueues()
    for one in documents(text):
        known.add(one)
    return migrate(text, "in.yaml", partial(rewrite, run=Run(queues=known)))


def said(found: Migrated) -> list[tuple[str, str]]:
    """Level and path of each note."""
    return [(one.note.level.value, one.note.path) for one in found.entries]
