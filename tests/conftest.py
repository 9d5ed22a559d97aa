"""How the random tests draw: the same examples in every run, or new ones when TUTTI_FUZZ says how many times as many.

A run of `make test` must not depend on luck: what passed here passes in CI. The search for what nobody has seen yet
goes on in `make fuzz-histories`, whose findings become tests of their own.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
"""No test depends on how busy the machine is."""

settings.register_profile("fixed", PATIENT, derandomize=True, database=None)
settings.register_profile("fuzz", PATIENT)
settings.load_profile("fuzz" if "TUTTI_FUZZ" in os.environ else "fixed")
