"""The scene, on a cluster that all tests of a module share; and logs as they were before a command set them up."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.cli.views.staging import staged


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("stage") / "kubeconfig"
    with staged(path):
        yield path


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A command is a process of its own and routes all logs; here others come after it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
