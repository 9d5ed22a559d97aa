"""Asks the conventions in a fixed order what a pod says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from tutti.api.conventions import annotated_gangs, kueue, named_groups
from tutti.api.conventions.membership import GangMembership, annotation_path, check_length, label_path

if TYPE_CHECKING:
    from tutti.api.configuration import Conventions
    from tutti.api.core import Pod

Reader = Callable[["Pod", "Conventions"], GangMembership | None]

READERS: Mapping[str, Reader] = {
    "tutti": named_groups.read_tutti,
    "kubernetes": named_groups.read_kubernetes,
    "scheduler_plugins": named_groups.read_scheduler_plugins,
    "pfnet": annotated_gangs.read_pfnet,
    "volcano": named_groups.read_volcano,
    "koordinator": annotated_gangs.read_koordinator,
    "yunikorn": annotated_gangs.read_yunikorn,
    "kueue": kueue.read_kueue,
}
"""How each convention is read, by its field in the settings; the first that names a group decides it."""


KEYS: Mapping[str, Callable[[Conventions], Iterable[str]]] = {
    "tutti": lambda _: named_groups.TUTTI_KEYS,
    "kubernetes": lambda _: (),
    "scheduler_plugins": lambda _: named_groups.SCHEDULER_PLUGINS_KEYS,
    "pfnet": annotated_gangs.pfnet_keys,
    "volcano": lambda _: named_groups.VOLCANO_KEYS,
    "koordinator": lambda _: annotated_gangs.KOORDINATOR_KEYS,
    "yunikorn": lambda _: annotated_gangs.YUNIKORN_KEYS,
    "kueue": lambda _: kueue.KEYS,
}
"""The labels and annotations that each convention reads."""


def membership_keys(settings: Conventions) -> frozenset[str]:
    """Return the keys of all labels and annotations that a claim is read from: others say nothing."""
    return frozenset(key for name, keys in KEYS.items() if _enabled(name, settings) for key in keys(settings))


def membership_of(pod: Pod, settings: Conventions) -> GangMembership:
    """What a pod says of its gang, workload, queue and priority; an empty claim for an ordinary pod.

    The gang comes whole from the first convention that names one; queue, priority class, topology and what it starts
    after each from the first that says them: so a pod may name its gang in one convention and its queue in another.

    Raises:
        ConventionError: an enabled convention says something that cannot be read.
    """
    claims = [claim for name in READERS if _enabled(name, settings) and (claim := _read(name, pod, settings))]
    chosen = next((claim for claim in claims if claim.group or claim.workload), None)
    if chosen is None:
        chosen = claims[0] if claims else GangMembership(namespace=pod.metadata.namespace)
    queue = next((claim.queue for claim in claims if claim.queue), "")
    priority_class = next((claim.priority_class for claim in claims if claim.priority_class), "")
    topology = next((claim.topology for claim in claims if claim.topology), None)
    after = next((claim.after for claim in claims if claim.after), ())
    seconds = next((claim.flavor_seconds for claim in claims if claim.flavor_seconds), ())
    said: dict[str, object] = {"queue": queue, "priority_class": priority_class, "topology": topology, "after": after}
    said["flavor_seconds"] = seconds
    if all(getattr(chosen, name) == value for name, value in said.items()):
        return chosen
    return msgspec.structs.replace(chosen, **said)


def _read(name: str, pod: Pod, settings: Conventions) -> GangMembership | None:
    """Ask one convention, if all that it reads has a length that can be read."""
    for key in KEYS[name](settings):
        for texts, named in ((pod.metadata.labels, label_path), (pod.metadata.annotations, annotation_path)):
            if key in texts:
                check_length(texts[key], named(key))
    return READERS[name](pod, settings)


def _enabled(name: str, settings: Conventions) -> bool:
    """Labels of ours are always read."""
    return name == "tutti" or bool(getattr(settings, name))
