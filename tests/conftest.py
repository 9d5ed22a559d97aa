"""How the random tests draw: what passed here passes in CI, so the same examples in every run (`drawing.py`)."""

from __future__ import annotations

import gc

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
