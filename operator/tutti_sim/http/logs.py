"""What may be asked of the log of a pod. Hollow containers write none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tutti_sim.meta import Json
from tutti_sim.meta.errors import bad_request, invalid, not_found, unprocessable
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.metadata import integer
from tutti_sim.store.collection import Version

_LEAST: Final = {"tailLines": 0, "sinceSeconds": 1, "limitBytes": 1}


def check(backend: Backend, pod: Version, query: Mapping[str, str]) -> None:
    """ApiError 422 where the options are wrong, 400 for a container that the pod does not have, 404 for no node."""
    faults = []
    for name, least in _LEAST.items():
        given = integer(query, name)
        if given is not None and given < least:
            text = f"must be greater than {'or equal to 0' if least == 0 else '0'}"
            faults.append(invalid(name, given, text))
    if faults:
        raise unprocessable("PodLogOptions", "", pod.key[1], faults)
    spec: Json = pod.obj["spec"]
    fields = ("containers", "initContainers", "ephemeralContainers")
    names = [one["name"] for field in fields for one in spec.get(field, ())]
    asked = query.get("container", "")
    if asked and asked not in names:
        raise bad_request(f"container {asked} is not valid for pod {pod.key[1]}")
    if not asked and len(names) > 1:
        raise bad_request(_which(pod.key[1], spec))
    node = spec.get("nodeName")
    if node and backend.find("nodes", "", node) is None:
        raise not_found("pods", "", node)


def _which(name: str, spec: Json) -> str:
    """That one has to be chosen, and among which."""
    listed = " ".join(one["name"] for one in spec["containers"])
    text = f"a container name must be specified for pod {name}, choose one of: [{listed}]"
    init = " ".join(one["name"] for one in spec.get("initContainers", ()))
    return f"{text} or one of the init containers: [{init}]" if init else text
