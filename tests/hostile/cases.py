"""Hostile objects: an honest one in which something was put that does not belong there."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tests.hostile.kinds import targets
from tests.hostile.shapes import TEXT, Path, Shape, places
from tests.hostile.target import Json, Target, grafted, sample
from tests.hostile.texts import keys, texts_of_json
from tests.hostile.values import Literally, hostile, written
from tutti.api.frameworks import KNOWN_KINDS

_IDENTITY = {("metadata",), ("metadata", "name"), ("metadata", "namespace"), ("metadata", "uid")}
"""What a server never leaves out."""


@dataclass(frozen=True)
class Graft:
    """What was put where."""

    path: Path
    value: Any
    called: str

    def __str__(self) -> str:
        return f"{shown(self.path)} = {self.called}"


@dataclass(frozen=True)
class Case:
    """A hostile object.

    Attributes:
        base: Which honest object of its kind it was.
        number: Tells it from others; it is named by it unless it has to have the name of the honest one.
    """

    target: Target
    base: str
    grafts: tuple[Graft, ...]
    number: int = 0
    own_name: bool = True

    @property
    def document(self) -> Json:
        found: Json = {"apiVersion": self.target.resource.api_version, "kind": self.target.kind}
        found = {**found, **copy.deepcopy(dict(self.target.bases[self.base]))}
        for graft in self.grafts:
            found = grafted(found, graft.path, graft.value, self.target.shape)
        meta = dict(found["metadata"])
        if self.own_name and not any(graft.path == ("metadata", "name") for graft in self.grafts):
            meta["name"] = f"{meta['name']}-{self.number}"
        meta.setdefault("uid", f"uid-{self.target.name}-{self.number}")
        meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        return {**found, "metadata": {**meta, "resourceVersion": str(self.number + 1)}}

    @property
    def text(self) -> bytes:
        return written(self.document)

    def __str__(self) -> str:
        return f"{self.target.name}, {self.base}, with " + " and ".join(map(str, self.grafts))


def shown(path: Path) -> str:
    """A path as people write it."""
    return "".join(f"[{step}]" if isinstance(step, int) or "/" in step else f".{step}" for step in path).lstrip(".")


@cache
def fields(target: Target) -> tuple[tuple[Path, Shape], ...]:
    """Every place of a kind in which something may be put, labels and annotations by the keys that are read."""
    found = [(path, shape) for path, shape in places(target.shape) if path and path not in _IDENTITY]
    named = [(("metadata", one), TEXT) for one in ("name", "namespace", "uid")]
    texts: list[tuple[Path, Shape]] = [
        (("metadata", part, key), TEXT) for part in ("labels", "annotations") for key in keys()
    ]
    return (*named, *texts, *found)


def values(target: Target, path: Path, shape: Shape) -> dict[str, Any]:
    """What is tried at a place, by name."""
    found = hostile(shape, sample(shape.of, name=str(path[-1])) if shape.of else None)
    if path[0] == "metadata":
        found = {name: value for name, value in found.items() if _is_of(shape, value)}
    if target.kind == "Pod" and path[:2] == ("metadata", "annotations") and len(path) == 3:
        found = {**found, **_texts(str(path[2]))}
    return found


def _is_of(shape: Shape, value: Any) -> bool:
    """Whether a server has a value in metadata, which it reads and writes itself whatever the kind."""
    if shape.kind == "number":
        return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    if shape.kind == "time":
        return value in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
    if shape.kind in ("list", "map"):
        entries = value.values() if isinstance(value, dict) else value
        return isinstance(value, list if shape.kind == "list" else dict) and None not in entries and value != [None]
    return isinstance(value, {"text": str, "truth": bool, "record": dict}.get(shape.kind, object))


@cache
def _texts(key: str) -> dict[str, str]:
    """Texts of JSON that are nearly what an annotation is to say."""
    shape = texts_of_json().get(key)
    found: dict[str, str] = {}
    if shape is None:
        return found
    honest = {"base": sample(shape)}
    around = Shape("record", fields=lambda: {"base": (shape, True)})
    for path, inner in places(shape, ("base",)):
        entry = sample(inner.of) if inner.of else None
        for name, value in hostile(inner, entry).items():
            text = written(grafted(honest, path, value, around)["base"]).decode()
            if len(text) < 262_144:
                found[f"JSON with {shown(path[1:]) or 'all'} = {name}"] = text
    return found


def sweep(each: int, *, seed: int = 0, kinds: tuple[Target, ...] | None = None) -> Iterator[Case]:
    """At every place so many of the things that are tried there, which ones by the seed; 0 for all."""
    number = 0
    draw = random.Random(seed)
    for target in kinds or targets():
        bases = sorted(target.bases)
        for path, shape in fields(target):
            tried = list(values(target, path, shape).items())
            chosen = draw.sample(tried, min(each, len(tried))) if each else tried
            for name, value in chosen:
                number += 1
                base = bases[number % len(bases)]
                yield Case(target, base, (Graft(path, value, name),), number, own_name=number % 4 != 0)


def drawn(draw: random.Random, number: int) -> Case:
    """Any object with something odd in it, at one place or a few."""
    target = _target(draw)
    base = draw.choice(sorted(target.bases))
    grafts = tuple(_graft(draw, target) for _ in range(draw.choice((1, 1, 1, 2, 3))))
    return Case(target, base, grafts, number, own_name=draw.random() < 0.7)


def _target(draw: random.Random) -> Target:
    """A kind: pods often, and owners seldom, of which there are many kinds that are all read alike."""
    owners = {f"{one.kind}.{one.group}" for one in KNOWN_KINDS}
    chosen = draw.random()
    if chosen < 0.4:
        return next(one for one in targets() if one.name == "Pod")
    return draw.choice([one for one in targets() if (one.name in owners) == (chosen < 0.5)])


def _graft(draw: random.Random, target: Target) -> Graft:
    path, shape = draw.choice(fields(target))
    tried = values(target, path, shape)
    name = draw.choice(list(tried))
    return Graft(path, tried[name] if shape.kind == "time" else _varied(draw, tried[name]), name)


def _varied(draw: random.Random, value: Any) -> Any:
    """The same, or a piece of it, or it more than once: what nobody has thought of."""
    if isinstance(value, str) and value and draw.random() < 0.3:
        at = draw.randrange(len(value))
        return draw.choice((value[at:], value[:at], value[:at] + draw.choice('[]{}",0eE-+.%\x00\u202e') + value[at:]))
    if isinstance(value, int) and not isinstance(value, bool) and draw.random() < 0.3:
        return value + draw.choice((-1, 1))
    return value


def smaller(case: Case) -> Iterator[Case]:
    """Cases that are less than this one: without a graft, or with less of a text."""
    if len(case.grafts) > 1:
        for at in range(len(case.grafts)):
            yield replace(case, grafts=case.grafts[:at] + case.grafts[at + 1 :])
    for at, graft in enumerate(case.grafts):
        for less in _less(graft.value):
            changed = replace(graft, value=less, called=f"part of {graft.called.removeprefix('part of ')}")
            yield replace(case, grafts=(*case.grafts[:at], changed, *case.grafts[at + 1 :]))


def _less(value: Any) -> Iterator[Any]:
    if isinstance(value, str | list) and len(value) > 1:
        yield value[: len(value) // 2]
        yield value[len(value) // 2 :]
        yield value[:-1]
    elif isinstance(value, dict) and len(value) > 1:
        items = list(value.items())
        yield dict(items[: len(items) // 2])
        yield dict(items[len(items) // 2 :])
    elif isinstance(value, Literally) and len(value.text) > 64:
        half = len(value.text) // 4
        yield Literally(value.text[half:-half])
