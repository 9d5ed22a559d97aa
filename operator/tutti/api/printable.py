"""Control characters in texts of users: whoever prints a text shows them instead of sending them to the terminal."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""C0 and C1 without tab and line feed, and what turns the direction of the text that follows."""


def shown(text: str) -> str:
    r"""Return a text with its control characters as they are written in code: `\x1b`, `\u202e`."""
    return _CONTROLS.sub(_written, text)


def _written(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
