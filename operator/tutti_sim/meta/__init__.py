"""What all kinds share: errors, names, selectors, times, quantities and metadata rules."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
"""A JSON object, as the store and the wire have them."""
