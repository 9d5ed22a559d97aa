"""The frame of a scenario file's parts: strict about names, but not about their case, as Go's JSON decoder is."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from tutti.api.model import Model


class Part(Model):
    """A part of a scenario file; `CountParam` and `countparam` are both `countParam`."""

    @model_validator(mode="before")
    @classmethod
    def spell(cls, value: Any) -> Any:
        """Spell the keys of a mapping as the fields are spelt; what matches none stays, to be told of as it stands."""
        if not isinstance(value, dict):
            return value
        known = {str(field.alias).lower(): field.alias for field in cls.model_fields.values()}
        return {known.get(str(key).lower(), key): entry for key, entry in value.items()}
