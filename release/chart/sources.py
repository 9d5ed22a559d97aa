"""What kustomize is given, file by file; what nobody asked for in the end was forgotten in the chart."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
OTHERWISE = {"kustomization.yaml"}
"""Files that say how others go together; the templates say it their own way, and a test compares what comes out."""
NOT_INSTALLED = ("samples", "chart")
BY_HELM = {"base/namespace.yaml"}
"""Made by `helm install --create-namespace`; NOTES.txt says how to label it."""

Json = dict[str, Any]


class Sources:
    """The files of `manifests/`, and which of them were read."""

    def __init__(self) -> None:
        self._read: set[Path] = set()

    def text(self, path: str) -> str:
        """A file of `manifests/` as it stands."""
        file = MANIFESTS / path
        self._read.add(file)
        return file.read_text(encoding="utf-8")

    def objects(self, path: str) -> list[Json]:
        """The objects of a file."""
        return [one for one in yaml.load_all(self.text(path), yaml.CSafeLoader) if one]

    def added(self, path: str, where: str) -> list[Any]:
        """What a JSON patch appends at a path, such as the rules of a component.

        Raises:
            ValueError: it does something else as well.
        """
        patches = yaml.safe_load(self.text(path))
        for one in patches:
            if (one["op"], one["path"]) != ("add", f"{where}/-"):
                raise ValueError(f"manifests/{path}: {one['op']} {one['path']} is not appending to {where}")
        return [one["value"] for one in patches]

    def forgotten(self) -> list[str]:
        """The files that were not read, by their paths below `manifests/`."""
        files = (file for file in MANIFESTS.rglob("*") if file.suffix in {".yaml", ".json"})
        return sorted(
            str(path)
            for path in (file.relative_to(MANIFESTS) for file in files if file not in self._read)
            if path.parts[0] not in NOT_INSTALLED and path.name not in OTHERWISE and str(path) not in BY_HELM
        )


def crds() -> list[Json]:
    """The definitions of our kinds."""
    texts = (file.read_text(encoding="utf-8") for file in sorted((ROOT / "crds").glob("*.yaml")))
    return [yaml.load(text, yaml.CSafeLoader) for text in texts]


def version() -> str:
    """The version of the image in the base, which is the chart's as well."""
    kustomization = yaml.safe_load((MANIFESTS / "base" / "kustomization.yaml").read_text(encoding="utf-8"))
    [image] = kustomization["images"]
    return str(image["newTag"])


class RightsComponent:
    """A component that gives the operator further rights, and does nothing else.

    Attributes:
        path: Its folder below `manifests/components`.
        value: Where it is among the chart's values: `rights.devices`, `rights.frameworks.ray`.
        about: What its kustomization says of it.
        installed: Whether `overlays/default` has it.
    """

    def __init__(self, path: str, *, installed: bool) -> None:
        folder = MANIFESTS / "components" / path
        self.path = path
        self.value = "rights." + ".".join(camel(part) for part in path.split("/"))
        lines = (folder / "kustomization.yaml").read_text(encoding="utf-8").splitlines()
        self.about = " ".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))
        self.installed = installed
        [self.file] = [f"components/{path}/{one.name}" for one in folder.iterdir() if one.name in RULES]


RULES = {"rule.yaml", "rules.yaml"}
MORE_THAN_RIGHTS = {"web-view"}
"""Components with rules, ports and whatever else goes with them, under a value of their own."""


def rights_components() -> list[RightsComponent]:
    """Every component with a file of rules, in the order of their paths."""
    root = MANIFESTS / "components"
    default = yaml.safe_load((MANIFESTS / "overlays" / "default" / "kustomization.yaml").read_text(encoding="utf-8"))
    installed = {one.rpartition("components/")[2] for one in default["components"]}
    paths = sorted(str(file.parent.relative_to(root)) for file in root.rglob("*.yaml") if file.name in RULES)
    paths = [path for path in paths if path not in MORE_THAN_RIGHTS]
    return [RightsComponent(path, installed=path.partition("/")[0] in installed) for path in paths]


def camel(name: str) -> str:
    """`admission-checks` as `admissionChecks`."""
    return re.sub(r"-(\w)", lambda found: found[1].upper(), name)
