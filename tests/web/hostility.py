"""Objects in which every name and message is hostile; no API server would take most of these names, and that is no excuse."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tests.cli.views import scene
from tests.cli.views.scene import Json
from tests.engine.devices import resource_slice
from tutti.api.conventions.after_annotation import AFTER
from tutti.api.conventions.speed_by_members import SPEED_BY_MEMBERS
from tutti.api.network import GROUP_LABEL
from tutti.engine.records.device_observations import SliceSeen
from tutti.engine.records.observations import AnyObservation, ThrottleSeen
from tutti.web.told import ToldEvent

THROTTLER = "kube-throttler"
_THROTTLED = {f"gang-{number}" for number in range(0, 100, 3)}


def hostile_objects(corpus: Sequence[str]) -> list[Json]:
    made: list[Json] = []
    first = corpus[0]
    made.append(scene.ours("Topology", first, {"levels": [{"nodeLabel": scene.RACK}, {"nodeLabel": first}]}))
    made.append(scene.ours("ResourceFlavor", first, {"nodeLabels": {scene.MODEL: first}}))
    for number, text in enumerate(corpus):
        taints = [{"key": text, "value": text, "effect": "NoSchedule"}] if number % 2 else []
        made.append(scene.node(f"{text}{number}", text, text, taints=taints, unschedulable=number % 3 == 0))
        made.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": text}})
        made.append(scene.ours("Cohort", text, {}))
        made.append(scene.queue(text, text, first, 4))
        made.append(scene.ours("LocalQueue", text, {"clusterQueue": text}, text))
        gang = scene.group(text, text, 2, queue=text)
        gang["status"] = {
            "conditions": [
                {
                    "type": text,
                    "status": "False",
                    "reason": text,
                    "message": text,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
            "pendingReason": {"reasons": [{"gate": "Quota", "reason": text, "message": text}]},
        }
        made.append(gang)
        made.append(scene.pod(text, f"{text}-0", 1, gang=text))
        made.append(scene.pod(text, f"{text}-1", 1, gang=text, on=f"{text}{number}", owner=text))
        # What is read has such a name; it is in a hostile namespace, and asks for what its queue does not have.
        asks_for_more = scene.group(text, f"gang-{number}", 2, queue="queue")
        if f"gang-{number}" in _THROTTLED:  # a throttle has it wait, not a queue
            del asks_for_more["spec"]["queueName"]
        if number % 3 == 1:
            asks_for_more["metadata"]["annotations"] = {SPEED_BY_MEMBERS: text, AFTER: text}
        made.append(asks_for_more)
        made.append(scene.pod(text, f"{text}-2", 1, gang=f"gang-{number}"))
        made.append(scene.pod(text, f"{text}-3", 1, gang=f"gang-{number}", owner=text))
    for one, text in zip(made, itertools.cycle(corpus)):
        _disguise(one, text)
    return sorted(made, key=lambda one: one["kind"] == "Pod")


def _disguise(one: Json, text: str) -> None:
    """Write it wherever else a tenant, a driver or an administrator may write what he likes."""
    meta, spec = one["metadata"], one.get("spec", {})
    for beside in ("labels", "annotations"):
        meta.setdefault(beside, {}).update({text: text, "app.kubernetes.io/name": text})
    if one["kind"] != "Pod":
        return
    if not meta["labels"].get(f"{scene.TUTTI}/pod-group"):
        meta["labels"][f"{scene.TUTTI}/queue-name"] = text
    meta["labels"][GROUP_LABEL] = text
    for container in spec["containers"]:
        container |= {"name": text, "image": text, "env": [{"name": text, "value": text}]}
    spec["nodeSelector"] = {text: text}
    if meta["labels"].get(f"{scene.TUTTI}/pod-group") not in _THROTTLED:
        spec["resourceClaims"] = [{"name": text, "resourceClaimName": text}]
    spec["tolerations"] = [{"key": text, "operator": text, "value": text, "effect": text}]


def hostile_devices(corpus: Sequence[str]) -> list[AnyObservation]:
    """What drivers publish: pools, devices and attributes, of which the page of nodes shows what is taken."""
    found: list[AnyObservation] = []
    for number, text in enumerate(corpus):
        one = resource_slice(f"{text}{number}", 1, driver=text, name=text, attributes={text: {"string": text}})
        found.append(SliceSeen(one))
    return found


def hostile_throttles(corpus: Sequence[str]) -> list[AnyObservation]:
    """In every third namespace none may use anything, by a throttle that is called what its tenant likes."""
    found: list[AnyObservation] = []
    for text in corpus[::3]:
        spec = {
            "throttlerName": THROTTLER,
            "selector": {"selectorTerms": [{"podSelector": {}}]},
            "threshold": {"resourceCounts": {"pod": 0}},
        }
        found.append(ThrottleSeen("Throttle", {"metadata": {"namespace": text, "name": text}, "spec": spec}))
    return found


def hostile_events(corpus: Sequence[str]) -> list[ToldEvent]:
    return [
        ToldEvent(f"{text}/{text}", scene.AT - 1, kind, text, text, text, text, warning=True, times=2)
        for text in corpus
        for kind in ("PodGroup", "ClusterQueue", text)
    ]
