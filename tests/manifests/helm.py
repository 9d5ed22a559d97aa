"""Helm's own SDK, where `make helm` has put it: a chart is checked by the code that people install it with."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.manifests.check import ROOT, documents

FOLDER = ROOT / "build" / "helm"
CHART = ROOT / "manifests" / "chart"
TEMPLATE_OF_TESTS = "tests/is-scheduled.yaml"

Json = dict[str, Any]


def sdk() -> Any:
    """The library; whoever asks is skipped where it is not, in CI as well, and told how to get it."""
    if FOLDER.is_dir() and str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return pytest.importorskip("helm_python", reason="Helm's SDK is not here: `make helm` fetches it")


LOADED: dict[str, Any] = {}


def loaded(path: str = str(CHART)) -> Any:
    """A chart as Helm has read it, once for all who ask."""
    if path not in LOADED:
        LOADED[path] = sdk().Chart.load(path)
    return LOADED[path]


def objects(
    values: Json, *, namespace: str = "tutti-system", path: str = str(CHART), definitions: bool = False
) -> list[Json]:
    """What `helm install` would make of a chart with these values, but for what only `helm test` makes.

    Definitions of our kinds are most of the text, and are left out unless they are wanted.
    """
    found = []
    for name, text in loaded(path).render(values, name="tutti", namespace=namespace).items():
        left_out = name.endswith(TEMPLATE_OF_TESTS) or (name.endswith("crds.yaml") and not definitions)
        if name.endswith(".yaml") and not left_out:
            found += documents(text)
    return found
