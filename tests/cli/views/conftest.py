"""The scene, on a cluster that all tests of a module share; and logs as they were before a command set them up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.views.staging import staged


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("stage") / "kubeconfig"
    with staged(path):
        yield path
