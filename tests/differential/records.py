"""Records of what peers have decided: a case a line, as JSON, packed or not."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def cases(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the cases of a file."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as lines:
        yield from (json.loads(line) for line in lines if line.strip())
