"""What the writers need to see of a pod to learn what became of a write."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec

from tutti.kube.client import Client
from tutti.kube.errors import ApiError
from tutti.kube.reading import object_decoder
from tutti.kube.resources import PODS
from tutti.kube.retry import retrying


class PodMeta(msgspec.Struct, frozen=True, rename="camel"):
    """Which pod it is, and whether it is leaving."""

    uid: str = ""
    deletion_timestamp: str | None = None


class PodPlace(msgspec.Struct, frozen=True, rename="camel"):
    """Where it is, and what keeps it from being anywhere."""

    node_name: str = ""
    scheduling_gates: list[dict[str, Any]] | None = None


class PodNow(msgspec.Struct, frozen=True):
    """A pod as the server has it now."""

    metadata: PodMeta = PodMeta()
    spec: PodPlace = PodPlace()


_POD: Final = object_decoder(PodNow)


async def read_pod(client: Client, namespace: str, name: str, *, uid: str = "", tries: int = 5) -> PodNow | None:
    """Return the pod; None where it, or the one with this uid, is no more.

    Raises:
        WireError: It could not be read, however often tried.
    """
    try:
        body = await retrying(lambda: client.request("GET", PODS.path(namespace, name)), tries=tries)
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise
    pod = _POD(body)
    return None if uid and pod.metadata.uid != uid else pod
