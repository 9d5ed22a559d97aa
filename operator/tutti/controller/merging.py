"""Merge patches put together: what several say one after the other, in one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def composed(first: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """Return one merge patch (RFC 7386) that does what two do one after the other.

    One thing it cannot say: a field removed by the first and given as an object by the second keeps, of what the
    server has, what the second does not name.
    """
    result = dict(first)
    for field, value in then.items():
        before = result.get(field)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            result[field] = composed(before, value)
        else:
            result[field] = value
    return result
