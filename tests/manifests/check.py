"""`make manifests-check`: shows every overlay and sample to an API server, which refuses what it would not take.

python -m tests.manifests.check

The server is the embedded one, whose schemas are those of Kubernetes; our kinds are served from `crds/`, those of
other projects from `schemas/`. Nothing is sent anywhere else. An unknown field is an error (`fieldValidation=Strict`), as is
a warning. Exits 1 if anything is refused, and 3 where there is no kubectl to render overlays with.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tutti_sim.cluster import EmbeddedCluster

ROOT = Path(__file__).parents[2]
OVERLAYS = ROOT / "manifests" / "overlays"
SAMPLES = ROOT / "manifests" / "samples"
SCHEMAS = Path(__file__).with_name("schemas")
DEFINITION = "CustomResourceDefinition"

Json = dict[str, Any]


def overlays() -> list[Path]:
    """Every folder below `overlays/` that kustomize can build."""
    return sorted(file.parent for file in OVERLAYS.rglob("kustomization.yaml"))


def samples() -> list[Path]:
    """Every file of `samples/`."""
    return sorted(SAMPLES.glob("*.yaml"))


def documents(text: str) -> list[Json]:
    """The objects of a YAML text."""
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


def rendered(folder: Path) -> list[Json]:
    """The objects of an overlay.

    Raises:
        subprocess.CalledProcessError: kustomize cannot build it.
    """
    built = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=True)
    return documents(built.stdout)


class Judge:
    """An API server that is shown objects and says what is wrong with them."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url
        self._plurals: dict[str, dict[str, tuple[str, bool]]] = {}

    async def problems(self, obj: Json) -> list[str]:
        """What the server says against an object, errors and warnings; nothing is stored but namespaces."""
        path = await self._path(obj)
        if path is None:
            return [f"{_name(obj)}: no schema is known for {obj.get('apiVersion')} {obj.get('kind')}"]
        stored = obj["kind"] == "Namespace"
        query = {"fieldValidation": "Strict"} | ({} if stored else {"dryRun": "All"})
        async with self._session.post(self._url + path, json=obj, params=query) as answer:
            said = [f"{_name(obj)}: {warning}" for warning in answer.headers.getall("Warning", [])]
            # Overlays share their namespace and definitions.
            if answer.status < 400 or (answer.status == 409 and obj["kind"] in ("Namespace", DEFINITION)):
                return said
            return [*said, f"{_name(obj)}: {json.loads(await answer.read())['message']}"]

    async def serve(self, definition: Json) -> None:
        """Take a definition into service.

        Raises:
            ValueError: the server does not take it.
        """
        url = f"{self._url}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        async with self._session.post(url, json=definition, params={"fieldValidation": "Strict"}) as answer:
            if answer.status >= 400:
                raise ValueError(json.loads(await answer.read())["message"])
        async with self._session.get(url, params={"watch": "true", "fieldSelector": _selects(definition)}) as events:
            async for line in events.content:
                conditions = json.loads(line)["object"].get("status", {}).get("conditions", [])
                if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
                    return

    async def _path(self, obj: Json) -> str | None:
        version = obj.get("apiVersion", "")
        if version not in self._plurals:
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            async with self._session.get(self._url + root) as answer:
                found = json.loads(await answer.read()).get("resources", []) if answer.status == 200 else []
            self._plurals[version] = {
                one["kind"]: (f"{root}|{one['name']}", one["namespaced"]) for one in found if "/" not in one["name"]
            }
        if obj.get("kind") not in self._plurals[version]:
            return None
        where, namespaced = self._plurals[version][obj["kind"]]
        root, _, plural = where.partition("|")
        namespace = f"/namespaces/{obj['metadata'].get('namespace', 'default')}" if namespaced else ""
        return f"{root}{namespace}/{plural}"


def _selects(obj: Json) -> str:
    return f"metadata.name={obj['metadata']['name']}"


def _name(obj: Json) -> str:
    meta = obj.get("metadata") or {}
    return f"{obj.get('kind', 'an object without a kind')} {meta.get('namespace', '')}/{meta.get('name', '')}".replace(
        " /", " "
    )


@asynccontextmanager
async def judge() -> AsyncIterator[Judge]:
    """A server of its own that knows our kinds, and those of others as far as we could use them."""
    async with EmbeddedCluster(nodes=0) as cluster:
        headers = {"Authorization": f"Bearer {cluster.token}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            judging = Judge(session, cluster.url)
            for definition in _definitions():
                await judging.serve(definition)
            yield judging


def _definitions() -> Iterator[Json]:
    for file in [*sorted((ROOT / "crds").glob("*.yaml")), *sorted(SCHEMAS.glob("*.yaml"))]:
        yield from documents(file.read_text())


async def everything() -> dict[str, list[str]]:
    """What is wrong with each overlay and sample, by its path."""
    places = [*overlays(), *samples()]
    objects = {place: rendered(place) if place.is_dir() else documents(place.read_text()) for place in places}
    found: dict[str, list[str]] = {}
    async with judge() as judging:
        # Samples live in namespaces of one another.
        for namespace in [obj for place in places for obj in objects[place] if obj["kind"] == "Namespace"]:
            await judging.problems(namespace)
        for place in places:
            said = [problem for obj in objects[place] for problem in await judging.problems(obj)]
            found[str(place.relative_to(ROOT))] = said
    return found


def main() -> int:
    """Check everything and say what was found; returns the exit code."""
    if shutil.which("kubectl") is None:
        print("manifests-check: kubectl is not installed, and overlays are rendered with it", file=sys.stderr)  # noqa: T201
        return 3
    found = asyncio.run(everything())
    for place, problems in found.items():
        print(f"{place}: {'refused' if problems else 'ok'}", *problems, sep="\n  ")  # noqa: T201
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
