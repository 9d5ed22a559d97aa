"""How the random tests draw: what passed here passes in CI, so the same examples in every run (`drawing.py`)."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.drawing import SEARCHES, tries

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
"""No test depends on how busy the machine is."""

settings.register_profile("fixed", PATIENT, derandomize=True, database=None, max_examples=tries(100))
settings.register_profile("fuzz", PATIENT, max_examples=tries(100))
settings.load_profile("fuzz" if SEARCHES else "fixed")


def pytest_collection_finish() -> None:
    """What is loaded stays: no collection of garbage looks through thousands of tests again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A command is a process of its own and routes all logs; here others come after it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
