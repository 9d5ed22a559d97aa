"""The configuration by which the operator of a cluster decides: as its Deployment mounts it, where nobody gives it.

Only what the manifests install is looked at, in the namespace that they name: a Deployment of the same name elsewhere
may be anybody's. Where it cannot be read the default is assumed, and an answer that may be wrong for it says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

import msgspec

from tutti.api.configuration import TuttiConfiguration, load_configuration
from tutti.api.frameworks.fields import FieldReader
from tutti.api.problems import ConfigurationError
from tutti.controller.plugins import load_plugins
from tutti.engine.records.plugins import Plugins
from tutti.kube.client import Client
from tutti.kube.errors import ApiError
from tutti.kube.fetching import ListScope, fetch_all
from tutti.kube.resources import APIResource

NAMESPACE: Final = "tutti-system"
"""Where the manifests install the operator."""
DEPLOYMENT: Final = "tutti"
"""What they call it."""
_DEPLOYMENTS: Final = APIResource("apps", "v1", "deployments")
_CONFIG_MAPS: Final = APIResource("", "v1", "configmaps")
_OPTION: Final = "--config="
_MOST: Final = 1000
"""Containers, volumes and mounts of the Deployment that are looked at."""


class KnownConfiguration(NamedTuple):
    """By which configuration an answer is worked out.

    Attributes:
        assumed: Why the operator's may be another one, and what to do; "" where it is the operator's.
    """

    configuration: TuttiConfiguration
    plugins: Plugins
    assumed: str = ""


def given_configuration(text: str, origin: str) -> KnownConfiguration:
    """Return the configuration that a caller has given.

    Raises:
        ConfigurationError: It cannot be used.
    """
    configuration = load_configuration(text, origin)
    return KnownConfiguration(configuration, load_plugins(configuration))


async def configuration_in(client: Client) -> KnownConfiguration:
    """Return the configuration of a cluster's operator, or the default where nobody can tell it.

    Raises:
        WireError: The server does not answer, or knows nobody by these credentials.
    """
    default = KnownConfiguration(TuttiConfiguration(), {})
    try:
        found = await _one(client, _DEPLOYMENTS, DEPLOYMENT)
        if found is None:
            return default._replace(assumed=_assumed(f"no Deployment {NAMESPACE}/{DEPLOYMENT} is here to tell of it"))
        name, file = _mounted(found)
        if not name:
            return default  # it is started without one
        mounted = await _one(client, _CONFIG_MAPS, name)
    except ApiError as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            raise
        return default._replace(assumed=_assumed(f"it may not be read ({error.message})"))
    data = mounted.get("data") if mounted is not None else None
    text = data.get(file) if isinstance(data, dict) else None
    if not isinstance(text, str):
        return default._replace(assumed=_assumed(f"ConfigMap {NAMESPACE}/{name} has no {file}"))
    try:
        configuration = load_configuration(text, f"ConfigMap {NAMESPACE}/{name}")
    except ConfigurationError as error:
        return default._replace(assumed=_assumed(f"it cannot be read here: {error}"))
    try:
        return KnownConfiguration(configuration, load_plugins(configuration))
    except ConfigurationError as error:
        without = [one.model_copy(update={"user_plugins": []}) for one in configuration.profiles]
        assumed = f"the operator's plugins are left out, for they cannot be loaded here: {error}"
        return KnownConfiguration(configuration.model_copy(update={"profiles": without}), {}, assumed)


def _assumed(why: str) -> str:
    return f"the operator's configuration is not known, and the default is assumed: {why}; give it with --config"


async def _one(client: Client, resource: APIResource, name: str) -> Mapping[str, Any] | None:
    """Return an object of the operator's namespace by what may be listed of it; None where it is not there.

    Raises:
        WireError: The server refuses, or does not answer.
    """
    try:
        raws = await fetch_all(client, ListScope(resource.path(NAMESPACE), field_selector=f"metadata.name={name}"))
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None
    found = [one for raw in raws if isinstance(one := msgspec.json.decode(raw), dict)]
    return next((one for one in found if FieldReader(one).text("metadata.name") == name), None)


def _mounted(deployment: Mapping[str, Any]) -> tuple[str, str]:
    """Return the ConfigMap that has the file which the operator is started with, and its key; "" for none."""
    pod = FieldReader(deployment).below("spec.template.spec") or FieldReader({})
    for container in pod.entries("containers", _MOST):
        words = [*_words(container, "command"), *_words(container, "args")]
        path = next((word.removeprefix(_OPTION) for word in words if word.startswith(_OPTION)), "")
        inside = [one for one in container.entries("volumeMounts", _MOST) if one.value("mountPath") in _above(path)]
        mounts = {one.text("name"): one for one in reversed(inside)} if path else {}
        for volume in pod.entries("volumes", _MOST):
            named, mount = volume.text("configMap.name"), mounts.get(volume.text("name"))
            if named and mount is not None:
                return named, mount.text("subPath") or PurePosixPath(path).name
    return "", ""


def _words(container: FieldReader, field: str) -> list[str]:
    """Return the words of a command line, as far as they are any."""
    found = container.value(field)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _above(path: str) -> tuple[str, ...]:
    """Return a path and the folder that it is in."""
    return path, str(PurePosixPath(path).parent)
