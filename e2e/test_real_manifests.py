"""A real API server takes every overlay and sample as it is: no unknown field, no warning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.harness.installing import ROOT, Administrator, own_cluster

SCHEMAS = ROOT / "tests" / "manifests" / "schemas"
OVERLAYS = sorted(file.parent for file in (ROOT / "manifests" / "overlays").rglob("kustomization.yaml"))
SAMPLES = sorted((ROOT / "manifests" / "samples").glob("*.yaml"))


@pytest.fixture(scope="module")
def administrator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Administrator]:
    """Somebody in a cluster that knows our kinds, those of others that overlays use, and the namespaces of samples."""
    kind = request.config.getoption("--cluster")
    with own_cluster(kind, tmp_path_factory.mktemp("manifests") / "cluster") as cluster:
        found = Administrator(cluster)
        found.apply("-k", str(ROOT / "crds"))
        found.apply("-f", str(SCHEMAS))
        for namespace in ("tutti-system", "team-a", "team-b", "lab-a", "lab-b", "contest"):
            found.kubectl("create", "namespace", namespace)
        yield found


@pytest.mark.parametrize("place", [*OVERLAYS, *SAMPLES], ids=lambda place: place.name)
def test_it_is_taken_as_it_is(administrator: Administrator, place: Path) -> None:
    what = ["-k", str(place)] if place.is_dir() else ["-f", str(place)]
    strictly = ["--dry-run=server", "--server-side", "--force-conflicts", "--validate=strict"]
    done = administrator.run("kubectl", "apply", *strictly, *what)
    assert done.returncode == 0, done.stderr
    assert "arning" not in done.stderr
