"""Lists what the image and the wheel are made of, as CycloneDX 1.6 JSON (https://cyclonedx.org/docs/1.6/json/).

python -m release.sbom [LOCK FILE] > sbom.json
python -m release.sbom --wheel dist/tutti-0.1.0-py3-none-any.whl > wheel-sbom.json

Names, versions and hashes are those of the lock file, which the image is installed by; licences, and what depends on
what, come from the installed packages, and are left out of packages for other platforms, which are not installed here.
The same lock file gives the same bill: it bears no time, and its serial number is made of its content.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import sys
import uuid
import zipfile
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements-runtime.lock"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Locked:
    """One package of a lock file.

    Attributes:
        marker: Where it is installed at all; "" for everywhere.
        hashes: SHA-256 of each of its files, wheels of all platforms among them.
    """

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Its package URL (https://github.com/package-url/purl-spec, type pypi)."""
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(text: str) -> list[Locked]:
    """The packages of a lock file, in its order."""
    entries = re.findall(r"(?m)^([\w.-]+)==([^\s;\\]+)(?:\s*;\s*([^\\\n]+))?((?:\s*\\\n\s+--hash=\S+)*)", text)
    return [
        Locked(canonicalize_name(name), version, marker.strip(), tuple(re.findall(r"sha256:([0-9a-f]{64})", hashes)))
        for name, version, marker, hashes in entries
    ]


def bill(packages: list[Locked], version: str) -> Json:
    """The bill of materials of Tutti at a version."""
    root = f"pkg:pypi/tutti@{version}"
    by_name = {one.name: one for one in packages}
    about = {
        "type": "application",
        "bom-ref": root,
        "name": "tutti",
        "version": version,
        "purl": root,
        "licenses": [{"expression": "Apache-2.0"}],
    }
    needs = [
        {"ref": root, "dependsOn": _needed("tutti", by_name)},
        *({"ref": one.purl, "dependsOn": _needed(one.name, by_name)} for one in packages),
    ]
    return _numbered(about, [_component(one) for one in packages], needs)


def wheel_bill(wheel: Path) -> Json:
    """The bill of a wheel: itself by its hash, and what it asks for, in the versions that it says would do.

    Which of these is installed is for whoever installs it to say, so they have no version here.
    """
    with zipfile.ZipFile(wheel) as packed:
        [name] = [one for one in packed.namelist() if one.endswith(".dist-info/METADATA")]
        said = message_from_bytes(packed.read(name))
    root = f"pkg:pypi/{canonicalize_name(said['Name'])}@{said['Version']}"
    asked = [Requirement(line) for line in said.get_all("Requires-Dist", [])]
    needed = {f"pkg:pypi/{canonicalize_name(one.name)}": one for one in asked}
    about = {
        "type": "application",
        "bom-ref": root,
        "name": said["Name"],
        "version": said["Version"],
        "purl": root,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}],
        "licenses": [{"expression": said["License-Expression"]}],
    }
    parts = [
        {
            "type": "library",
            "bom-ref": purl,
            "name": canonicalize_name(one.name),
            "purl": purl,
            "properties": [{"name": "tutti:requires", "value": str(one)}],
        }
        for purl, one in needed.items()
    ]
    return _numbered(about, parts, [{"ref": root, "dependsOn": sorted(needed)}, *({"ref": purl} for purl in needed)])


def _numbered(about: Json, components: list[Json], dependencies: list[Json]) -> Json:
    """A CycloneDX bill, whose serial number follows from what is in it."""
    content: Json = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": about},
        "components": components,
        "dependencies": dependencies,
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return {**content, "serialNumber": f"urn:uuid:{serial}"}


def _component(one: Locked) -> Json:
    source = {
        "type": "distribution",
        "url": f"https://pypi.org/project/{one.name}/{one.version}/",
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in one.hashes],
    }
    found: Json = {
        "type": "library",
        "bom-ref": one.purl,
        "name": one.name,
        "version": one.version,
        "purl": one.purl,
        "externalReferences": [source],
    }
    if one.marker:
        found["properties"] = [{"name": "tutti:marker", "value": one.marker}]
    licences = _licences(one.name)
    return {**found, "licenses": licences} if licences else found


def _licences(name: str) -> list[Json]:
    """What an installed package says of its licence; nothing of one that is not installed, or does not say."""
    try:
        said = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return []
    if said["License-Expression"]:
        return [{"expression": said["License-Expression"]}]
    classified = [
        line.rpartition(" :: ")[2] for line in said.get_all("Classifier") or () if line.startswith("License ::")
    ]
    short = [said["License"]] if said["License"] and "\n" not in said["License"] else []
    return [{"license": {"name": one}} for one in classified or short]


def _needed(name: str, locked: dict[str, Locked]) -> list[str]:
    """What an installed package needs of what is locked; extras are not installed."""
    try:
        said = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    wanted = [Requirement(line) for line in said]
    names = {canonicalize_name(one.name) for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})}
    return sorted(locked[one].purl for one in names if one in locked)


def main(arguments: list[str]) -> int:
    """Write the bill to standard output; returns the exit code."""
    if arguments[:1] == ["--wheel"]:
        document = wheel_bill(Path(arguments[1]))
    else:
        lock = Path(arguments[0]) if arguments else LOCK
        document = bill(read_lock(lock.read_text()), importlib.metadata.version("tutti"))
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
