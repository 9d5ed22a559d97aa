"""How the tests are loaded, and how the random ones draw.

What passed here passes in CI, so the same examples are drawn in every run (`drawing.py`).
"""

from __future__ import annotations

import gc

import pytest
from hypothesis import HealthCheck, settings

from tests.drawing import SEARCHES, tries
from tests.loading import import_share

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
"""No test depends on how busy the machine is."""

settings.register_profile("fixed", PATIENT, derandomize=True, database=None, max_examples=tries(100))
settings.register_profile("fuzz", PATIENT, max_examples=tries(100))
settings.load_profile("fuzz" if SEARCHES else "fixed")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Have one worker of several load each file first, so that its assertions are not rewritten by every one of them."""
    import_share(session.config.args)


def pytest_collection_finish() -> None:
    """What is loaded stays: no collection of garbage looks through thousands of tests again."""
    gc.collect()
    gc.freeze()
