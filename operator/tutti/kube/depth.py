"""How deep JSON from a server may be nested: what is deeper is read as null.

The API server takes 10,000 levels where a schema lets users write what they like, in a template for example; decoders
here use the stack for each. What is read by anybody stands within thirty levels.
"""

from __future__ import annotations

import re
from typing import Final

DEEPEST: Final = 128
"""Levels of lists and objects, one of which may be an object around the object itself."""
# A string, closed or not, or a bracket: each byte is looked at once.
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*\\?(?:"|\Z)|([\[{])|([\]}])', re.DOTALL)


def cut(text: bytes) -> bytes:
    """Return JSON with null in place of what is nested deeper than `DEEPEST`."""
    if text.count(b"[") + text.count(b"{") <= DEEPEST:
        return text
    depth, kept, begun = 0, list[bytes](), 0
    for found in _TOKENS.finditer(text):
        if found[1]:
            depth += 1
            if depth == DEEPEST + 1:
                kept += (text[begun : found.start()], b"null")
        elif found[2]:
            depth -= 1
            if depth == DEEPEST:
                begun = found.end()
    if depth <= DEEPEST:  # else it is no JSON, and has no end
        kept.append(text[begun:])
    return b"".join(kept)
