"""How many examples random tests draw: half of what is thought enough in `make test`, all of it and more when asked to.

The same examples are drawn in every run of `make test`, so what they can find, they find in the first run; the search
for what nobody has seen yet goes on in `make fuzz-histories`, which sets TUTTI_FUZZ to how many times as many it draws.
"""

from __future__ import annotations

import os
from typing import Any, Final

from hypothesis import settings

SEARCHES: Final = "TUTTI_FUZZ" in os.environ
"""Whether new examples are drawn, and every case is tried of which `make test` tries a part."""
TIMES: Final = int(os.environ.get("TUTTI_FUZZ", "1"))
_LEAST: Final = 20


def tries(enough: int) -> int:
    """Return how many examples to draw of a test for which so many are enough."""
    return enough * TIMES if SEARCHES else min(enough, max(_LEAST, enough // 2))


def examples(enough: int, **others: Any) -> settings:
    """Return the settings of a test for which so many examples are enough; `others` are hypothesis' own."""
    return settings(max_examples=tries(enough), **others)
