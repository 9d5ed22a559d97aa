"""The scene, on a cluster that all tests of a module share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.views.staging import staged


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("stage") / "kubeconfig"
    with staged(path):
        yield path
