"""Fields of objects whose schema nobody here vouches for, read within bounds.

The objects are of other projects, and their CustomResourceDefinitions may check nothing. So each read says what is
right where a field is not as it should be, and goes on with what the field is when it is left out. Null counts as left
out, as the API server takes it. Only paths that are asked for are walked: depth and size of the rest do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tutti.api.conventions.membership import LONGEST_NAME, quoted
from tutti.api.framework_kind import FieldCondition
from tutti.api.problems import FieldProblem, path_of

MOST_COUNT: Final = 2**31 - 1
"""The largest number that a field of Kubernetes' kinds holds (int32)."""
MOST_PROBLEMS: Final = 8
"""Problems of one object that are kept; a person corrects the first ones first."""
MOST_KEYS: Final = 512
"""Entries of a mapping that are looked at."""


@dataclass(slots=True)
class FieldReader:
    """A part of an object, and what was found wrong in it.

    Attributes:
        raw: The part, as it came; anything but a mapping has no fields.
        at: Where it stands in the object.
        problems: Shared by all parts of one object.
    """

    raw: Any
    at: tuple[str | int, ...] = ()
    problems: list[FieldProblem] = field(default_factory=list)

    def value(self, path: str) -> Any:
        """Return what stands under a path; None where nothing does."""
        found: Any = self.raw
        steps = path.split(".")
        for index, step in enumerate(steps):
            if found is None:
                return None
            if not isinstance(found, Mapping):
                self.note(steps[:index], "must be a mapping", found)
                return None
            found = found.get(step)
        return found

    def number(self, path: str, default: int = 0) -> int:
        """Return a whole number from 0 to `MOST_COUNT`."""
        given = self.count(path)
        return default if given is None else given

    def count(self, path: str) -> int | None:
        """Return a whole number from 0 to `MOST_COUNT`; None where none is given."""
        found = self.value(path)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= MOST_COUNT:
            self.note([path], f"must be a whole number from 0 to {MOST_COUNT}", found)
            return None
        return found

    def flag(self, path: str) -> bool:
        """Return whether a field is true."""
        found = self.value(path)
        if found is None or isinstance(found, bool):
            return bool(found)
        self.note([path], "must be true or false", found)
        return False

    def text(self, path: str) -> str:
        """Return a short text; "" where none is given."""
        return self._text(self.value(path), [path])

    def texts(self, path: str, keys: frozenset[str]) -> dict[str, str]:
        """Return those entries of a mapping of texts, such as labels, that somebody reads, in their order."""
        found = self.value(path)
        if found is None:
            return {}
        if not isinstance(found, Mapping):
            self.note([path], "must be a mapping of texts", found)
            return {}
        said = {key: self._text(found.get(key), [path, key]) for key in sorted(keys) if found.get(key) is not None}
        return {key: text for key, text in said.items() if text}

    def entries(self, path: str, most: int) -> Iterator[FieldReader]:
        """Yield the entries of a list that are mappings, the first `most` of them."""
        found = self.value(path)
        if found is None:
            return
        if not isinstance(found, Sequence) or isinstance(found, str | bytes):
            self.note([path], "must be a list", found)
            return
        if len(found) > most:
            self.say([path], f"has {len(found)} entries: at most {most} are read")
        for index, one in enumerate(found[:most]):
            if isinstance(one, Mapping):
                yield FieldReader(one, (*self.at, *path.split("."), index), self.problems)
            else:
                self.note([path, index], "must be a mapping", one)

    def members(self, path: str, most: int) -> Iterator[tuple[str, FieldReader]]:
        """Yield the entries of a mapping whose values are mappings, with their keys, the first `most` by name."""
        found = self.value(path)
        if found is None:
            return
        if not isinstance(found, Mapping):
            self.note([path], "must be a mapping", found)
            return
        if len(found) > most:
            self.say([path], f"has {len(found)} entries: at most {most} are read")
        names = sorted(key for key in list(found)[:MOST_KEYS] if isinstance(key, str))
        for name in names[:most]:
            part = found[name]
            if part is None:
                continue
            if len(name) > LONGEST_NAME or not name.isprintable():
                self.say([path], f"{quoted(name)} is no name: write at most {LONGEST_NAME} printable characters")
                continue
            if isinstance(part, Mapping):
                yield name, FieldReader(part, (*self.at, *path.split("."), name), self.problems)
            else:
                self.note([path, name], "must be a mapping", part)

    def mapping(self, path: str) -> Mapping[str, Any]:
        """Return a mapping as it stands there, of which nothing is looked at; an empty one where none is given."""
        part = self.below(path)
        return {} if part is None else part.raw

    def below(self, path: str) -> FieldReader | None:
        """Return the part under a path; None where there is none."""
        found = self.value(path)
        if found is None:
            return None
        if not isinstance(found, Mapping):
            self.note([path], "must be a mapping", found)
            return None
        return FieldReader(found, (*self.at, *path.split(".")), self.problems)

    def note(self, place: Sequence[str | int], right: str, found: Any) -> None:
        """Note that something is not as it should be."""
        self.say(place, f"{right}, not {_described(found)}")

    def say(self, place: Sequence[str | int], message: str) -> None:
        """Note a problem; only the first of an object are kept."""
        if len(self.problems) < MOST_PROBLEMS:
            steps = [part for step in place for part in _steps(step)]
            self.problems.append(FieldProblem(path_of([*self.at, *steps]), message))

    def _text(self, found: Any, place: Sequence[str | int]) -> str:
        if found is None:
            return ""
        if not isinstance(found, str) or len(found) > LONGEST_NAME or not found.isprintable():
            self.note(place, f"must be a text of at most {LONGEST_NAME} printable characters", found)
            return ""
        return found


def _steps(step: str | int) -> list[str | int]:
    """Return the steps of a path; the key of a label is one, whatever dots it holds."""
    return [step] if isinstance(step, int) or "/" in step else [*step.split(".")]


def _described(found: Any) -> str:
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, str):
        return quoted(found)
    if isinstance(found, int | float):
        return str(found) if abs(found) <= MOST_COUNT else "one beyond all bounds"
    return "a list" if isinstance(found, Sequence) else "a mapping" if isinstance(found, Mapping) else "that"


def holds(top: FieldReader, condition: FieldCondition, annotations: Mapping[str, Any]) -> bool:
    """Whether a condition holds of an object."""
    if condition.annotation is not None:
        found: Any = annotations.get(condition.annotation)
    else:
        found = top.value(condition.path or "")
    if found is None:
        return condition.unset
    if condition.same_as is not None:
        other = top.value(condition.same_as)
        return bool(type(other) is type(found) and other == found)
    return not condition.values or any(type(one) is type(found) and one == found for one in condition.values)


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def wanted(conditions: Sequence[FieldCondition]) -> str:
    """Return what would have to hold, in words."""
    said = [
        f"{one.path or one.annotation} is {' or '.join(map(_written, one.values)) or 'given'}" for one in conditions
    ]
    return " and ".join(said)
