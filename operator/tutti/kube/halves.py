"""Half a surrogate pair in JSON from a server: read as U+FFFD, as Go reads it (1.26, encoding/json, unquote).

A server in Go sends none. One behind an APIService may repeat what a user wrote, and decoders here refuse all that it
is in: a whole page of a list.
"""

from __future__ import annotations

import re
from typing import Final

# A whole pair, a half, or anything else that is escaped; each byte is looked at once.
_ESCAPED: Final = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)


def without_halves(text: bytes) -> bytes:
    """Return JSON with the replacement character in place of each half of a pair."""
    return _ESCAPED.sub(lambda found: rb"\ufffd" if found[2] else found[0], text)
