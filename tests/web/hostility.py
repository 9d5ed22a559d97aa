"""Objects in which every name and message is hostile; no API server would take most of these names, and that is no excuse."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tests.cli.views import scene
from tests.cli.views.scene import Json
from tests.engine.devices import resource_slice
from tutti.engine.records.device_observations import SliceSeen
from tutti.engine.records.observations import AnyObservation
from tutti.web.told import ToldEvent


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
        made.append(scene.group(text, f"gang-{number}", 2, queue="queue"))
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
    for container in spec["containers"]:
        container |= {"name": text, "image": text, "env": [{"name": text, "value": text}]}
    spec["nodeSelector"] = {text: text}
    spec["resourceClaims"] = [{"name": text, "resourceClaimName": text}]
    spec["tolerations"] = [{"key": text, "operator": text, "value": text, "effect": text}]


def hostile_devices(corpus: Sequence[str]) -> list[AnyObservation]:
    """What drivers publish: pools, devices and attributes, of which the page of nodes shows what is taken."""
    found: list[AnyObservation] = []
    for number, text in enumerate(corpus):
        one = resource_slice(f"{text}{number}", 1, driver=text, name=text, attributes={text: {"string": text}})
        found.append(SliceSeen(one))
    return found


def hostile_events(corpus: Sequence[str]) -> list[ToldEvent]:
    return [
        ToldEvent(f"{text}/{text}", scene.AT - 1, kind, text, text, text, text, warning=True, times=2)
        for text in corpus
        for kind in ("PodGroup", "ClusterQueue", text)
    ]
