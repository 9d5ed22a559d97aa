"""The manifest by which krew installs `kubectl tutti`, and the archives that it names.

python -m release.krew --address https://.../releases/download/v0.1.0 linux-x86_64=build/kubectl-tutti ... build/krew

The fields are krew's (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/).
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from release.chart.sources import ROOT, version

SELECTORS: Final = {
    "linux-x86_64": {"os": "linux", "arch": "amd64"},
    "linux-aarch64": {"os": "linux", "arch": "arm64"},
    "darwin-arm64": {"os": "darwin", "arch": "arm64"},
    "darwin-x86_64": {"os": "darwin", "arch": "amd64"},
}
"""Platforms as krew names them."""

Json = dict[str, Any]


def packed(executable: Path, target: Path) -> str:
    """Write an archive with the executable and the licence, which krew's index asks for; returns its SHA-256."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, "w:gz", compresslevel=1) as archive:  # what is in it is compressed
        for name, data, mode in (
            ("kubectl-tutti", executable.read_bytes(), 0o755),
            ("LICENSE", (ROOT / "LICENSE").read_bytes(), 0o644),
        ):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))
    return hashlib.sha256(target.read_bytes()).hexdigest()


def manifest(archives: Mapping[str, tuple[str, str]], homepage: str) -> Json:
    """The manifest, from the address and hash of each platform's archive."""
    platforms = [
        {
            "selector": {"matchLabels": SELECTORS[platform]},
            "uri": uri,
            "sha256": digest,
            "bin": "kubectl-tutti",
            "files": [{"from": name, "to": "."} for name in ("kubectl-tutti", "LICENSE")],
        }
        for platform, (uri, digest) in archives.items()
    ]
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "tutti"},
        "spec": {
            "version": f"v{version()}",
            "homepage": homepage,
            "shortDescription": "Explain why gangs wait, and queues and nodes",
            "description": (
                "Shows what Tutti's queues, gangs and nodes are doing, why a workload waits and what would start it,\n"
                "and what would become of everybody if something were submitted, changed or drained.\n"
            ),
            "caveats": "Needs Python 3.11 to 3.13 as python3; the rights that it needs are in manifests/viewer.yaml.\n",
            "platforms": platforms,
        },
    }


def main(arguments: list[str]) -> int:
    """Write the archives and tutti.yaml into a folder; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m release.krew", description=__doc__)
    parser.add_argument("executable", nargs="+", help="PLATFORM=FILE")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--address", required=True, help="where the archives will be")
    parser.add_argument("--homepage", required=True)
    options = parser.parse_args(arguments)
    archives = {}
    for platform, _, file in (one.partition("=") for one in options.executable):
        if platform not in SELECTORS:
            parser.error(f"{platform}: not one of {', '.join(SELECTORS)}")
        name = f"kubectl-tutti-{platform}.tar.gz"
        archives[platform] = (f"{options.address}/{name}", packed(Path(file), options.folder / name))
    text = yaml.safe_dump(manifest(archives, options.homepage), sort_keys=False)
    (options.folder / "tutti.yaml").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
