"""How the random tests draw: the same examples in every run, or new ones when TUTTI_FUZZ says how many times as many.

A run of `make test` must not depend on luck: what passed here passes in CI. The search for what nobody has seen yet
goes on in `make fuzz`, whose findings become tests of their own.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, database=None, print_blob=True)
settings.register_profile("fuzz", print_blob=True)
settings.load_profile("fuzz" if "TUTTI_FUZZ" in os.environ else "fixed")
