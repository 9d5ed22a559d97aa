"""The frame of what the engine is told, apart from the records so that those of one topic can have a file of theirs."""

from __future__ import annotations

import msgspec


class Observation(msgspec.Struct, frozen=True, tag_field="saw", omit_defaults=True):
    """Base of everything the engine can be told."""
