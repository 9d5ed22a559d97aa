"""The frame of a scenario file's parts, and the parameters of a workload.

Parts are strict about names, but not about their case, as Go's JSON decoder is. Of a parameter it is known what `$name`
stands for, and whether it has been used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import model_validator

from tutti.api.model import Model
from tutti.api.problems import nearest
from tutti_bench.templates import seconds_of


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


class ParameterError(ValueError):
    """A parameter that is missing, unused or of the wrong kind."""


class Params:
    """Parameters by name, which remember who was asked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._used: set[str] = set()

    def take(self, reference: str) -> Any:
        """Return what `$name` stands for.

        Raises:
            ParameterError: It does not begin with `$`, or there is no such parameter.
        """
        name = reference.removeprefix("$")
        if name == reference:
            raise ParameterError(f"a parameter is written ${name}, not {reference}")
        if name not in self._values:
            raise ParameterError(f"there is no parameter {name!r}; {nearest(name, list(self._values))}")
        self._used.add(name)
        return self._values[name]

    def integer(self, reference: str) -> int:
        """Return a whole number.

        Raises:
            ParameterError: As `take`, or it is something else.
        """
        value = self.take(reference)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            raise ParameterError(f"parameter {reference} must be a whole number, not {value!r}")
        return int(value)

    def whole_or_none(self, name: str) -> int:
        """Return a whole number that is read where it is there; 0 where it is not.

        Raises:
            ParameterError: It is something else.
        """
        return self.integer(f"${name}") if name in self._values else 0

    def boolean(self, reference: str) -> bool:
        """Return true or false.

        Raises:
            ParameterError: As `take`, or it is something else.
        """
        value = self.take(reference)
        if not isinstance(value, bool):
            raise ParameterError(f"parameter {reference} must be true or false, not {value!r}")
        return value

    def duration(self, reference: str) -> float:
        """Return the seconds of a duration.

        Raises:
            ParameterError: As `take`, or it is something else.
        """
        try:
            return seconds_of(self.take(reference))
        except ParameterError:
            raise
        except ValueError as error:
            raise ParameterError(f"parameter {reference}: {error}") from None

    def filled(self, template_params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a template with each `$name` replaced by what it stands for.

        Raises:
            ParameterError: There is no such parameter.
        """
        return {
            key: self.take(value) if isinstance(value, str) and value.startswith("$") else value
            for key, value in template_params.items()
        }

    def check_all_used(self) -> None:
        """Hold that every parameter has been asked for: one that is not is most likely misspelt.

        Raises:
            ParameterError: One has not.
        """
        unused = [name for name in self._values if name not in self._used]
        if unused:
            raise ParameterError(f"no operation uses the parameters {', '.join(unused)}")
