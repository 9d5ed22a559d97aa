"""Turns what pydantic found wrong into what a person should change: a path as it stands in the YAML, and a sentence.

Used for the kinds and for the configuration alike, so that both speak the same way.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, NamedTuple, get_args

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


class FieldProblem(NamedTuple):
    """One thing that is wrong: where it stands (`spec.podGroups[0].count`), and what would be right."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigurationError(ValueError):
    """A configuration that cannot be used; `problems` say where and what would be right."""

    def __init__(self, origin: str, problems: list[FieldProblem]) -> None:
        super().__init__(f"{origin}: " + "; ".join(str(problem) for problem in problems))
        self.origin = origin
        self.problems = problems


def problems_of(error: ValidationError, model: type[BaseModel]) -> list[FieldProblem]:
    """Everything that is wrong with an input of `model`, in the order of its fields."""
    return [FieldProblem(path_of(detail["loc"]), _message(detail, model)) for detail in error.errors()]


def path_of(location: Sequence[str | int]) -> str:
    """A location as it reads in YAML: `spec.flavors[2].name`; keys that hold dots or slashes stand in brackets."""
    path = ""
    for part in location:
        if isinstance(part, int) or not part.replace("_", "").isalnum():
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


def nearest(word: str, known: Sequence[str]) -> str:
    """The known word most like `word`, as the end of a sentence; all known words if none is like it."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(sorted(known))}"


def _message(detail: ErrorDetails, model: type[BaseModel]) -> str:
    context = detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden":
            return f"there is no such field; {nearest(str(detail['loc'][-1]), _fields_at(model, detail['loc'][:-1]))}"
        case "missing":
            return "must be given"
        case "literal_error":
            return f"must be {context['expected']}, not {detail['input']!r}"
        case "value_error" | "assertion_error":
            return str(context["error"])
        case "string_pattern_mismatch":
            return f"{detail['input']!r} does not have the form {context['pattern']}"
        case _:
            return f"{_lowered(detail['msg'])} (it is {_shortened(detail['input'])})"


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _shortened(value: object) -> str:
    text = repr(value)
    limit = 80
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _fields_at(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    """The field names that an object at this location may have."""
    for part in location:
        if isinstance(part, str):
            model = next(iter(_models_of(model, part)), model)
    return [field.alias or name for name, field in model.model_fields.items()]


def _models_of(model: type[BaseModel], alias: str) -> Iterator[type[BaseModel]]:
    for name, field in model.model_fields.items():
        if (field.alias or name) == alias:
            yield from _models_in(field.annotation)
            for mark in field.metadata:
                mirror = getattr(mark, "mirror", None)
                if mirror is not None:
                    yield mirror


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
        mirror = getattr(argument, "mirror", None)
        if mirror is not None:
            yield mirror
