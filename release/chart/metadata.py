"""Chart.yaml and README.md: what a person, Helm and Artifact Hub are told of the chart."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import yaml

from release.chart.sources import MANIFESTS, ROOT, Json, crds, version
from release.chart.values import SKELETON, table

OLDEST_KUBERNETES: Final = "1.30.0"
"""The oldest that docs/operations/upgrade.md names; a test holds the two together."""
REGISTRY: Final = "registry.example"
"""Stands for where whoever releases puts image and chart."""


class Release(NamedTuple):
    """Where a chart that is published comes from.

    Attributes:
        image: The repository of its image, which is the default of `image.repository`.
        digest: The image's digest, which is the default of `image.digest`: what the chart installs is what was signed.
        home: The address of the sources.
    """

    image: str
    digest: str
    home: str


def chart_yaml(release: Release | None = None) -> str:
    """Chart.yaml, with the annotations that Artifact Hub reads (https://artifacthub.io/docs/topics/annotations/helm/).

    What has changed is told by what is published alone, because it follows from the changelog.
    """
    found = version()
    made: dict[str, Any] = {
        "apiVersion": "v2",
        "name": "tutti",
        "version": found,
        "appVersion": found,
        "kubeVersion": f">={OLDEST_KUBERNETES}-0",
        "type": "application",
        "description": "A secondary scheduler for Kubernetes that decides quota and placement for a whole gang at once",
        "keywords": ["scheduler", "gang-scheduling", "batch", "quota", "queue", "gpu", "machine-learning"],
        "annotations": {
            "artifacthub.io/category": "ai-machine-learning",
            "artifacthub.io/license": "Apache-2.0",
            "artifacthub.io/operator": "true",
            "artifacthub.io/operatorCapabilities": "Seamless Upgrades",
            "artifacthub.io/prerelease": "true",
            "artifacthub.io/images": _text([{"name": "tutti", "image": _image(release, found)}]),
            "artifacthub.io/crds": _text([_crd(one) for one in crds()]),
            "artifacthub.io/crdsExamples": _text(_examples()),
        },
    }
    if release is not None:
        made |= {"home": release.home, "sources": [release.home]}
        made["annotations"]["artifacthub.io/changes"] = _text(_changes())
    return _NOTE + yaml.safe_dump(made, sort_keys=False, width=10_000, allow_unicode=True)


_NOTE: Final = "# Made by `make chart` from release/chart, manifests/ and crds/.\n"


def _image(release: Release | None, tag: str) -> str:
    return f"tutti:{tag}" if release is None else f"{release.image}:{tag}@{release.digest}"


def _text(value: object) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=10_000, allow_unicode=True)


def _crd(definition: Json) -> dict[str, str]:
    spec = definition["spec"]
    [served] = [one for one in spec["versions"] if one["storage"]]
    about = served["schema"]["openAPIV3Schema"]["description"]
    return {
        "kind": spec["names"]["kind"],
        "version": served["name"],
        "name": definition["metadata"]["name"],
        "displayName": spec["names"]["kind"],
        "description": about.partition("\n\n")[0].replace("\n", " "),
    }


def _examples() -> list[object]:
    """A ClusterQueue and what it needs, from the samples."""
    text = (MANIFESTS / "samples" / "two-queues.yaml").read_text(encoding="utf-8")
    wanted = {"ResourceFlavor", "ClusterQueue", "LocalQueue"}
    first: dict[str, object] = {}
    for one in yaml.safe_load_all(text):
        if one["kind"] in wanted:
            first.setdefault(one["kind"], one)
    return list(first.values())


def _changes() -> list[dict[str, str]]:
    """The first sentences of the newest version's list in CHANGELOG.md, twelve at most."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = text.partition("\n## ")[2].partition("\n## ")[0]
    found = []
    for kind, body in re.findall(r"(?ms)^### (\w+)\n(.*?)(?=^### |\Z)", newest):
        for entry in re.findall(r"(?m)^- \*\*(.+?)\*\*", body):
            found.append({"kind": kind.lower(), "description": entry.rstrip(".").replace("`", "")})  # noqa: PERF401
    return found[:12]


def readme(properties: Json) -> str:
    """README.md: how to install it, and every value."""
    text = (SKELETON / "README.md").read_text(encoding="utf-8")
    filled = {"REGISTRY": REGISTRY, "VERSION": version(), "TABLE": table(properties).rstrip()}
    return re.sub("|".join(filled), lambda found: filled[found[0]], text)
