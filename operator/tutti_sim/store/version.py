"""One version of one object: never changed once stored, and serialised at most once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

Json = dict[str, Any]
Key = tuple[str, str]

_encode = msgspec.json.Encoder().encode


class Version:
    """An object at a resource version. `obj` is shared by all readers: whoever wants to change it copies it first."""

    __slots__ = ("_json", "_views", "key", "obj", "rv")

    def __init__(self, key: Key, obj: Json, rv: int) -> None:
        self.key = key
        self.obj = obj
        self.rv = rv
        self._json: bytes | None = None
        self._views: dict[str, bytes] | None = None

    @property
    def json(self) -> bytes:
        """The object as JSON, serialised on first use."""
        if self._json is None:
            self._json = _encode(self.obj)
        return self._json

    def view(self, name: str, render: Callable[[Json], Json]) -> bytes:
        """Another rendering of the object as JSON (an API version, metadata only), made on first use."""
        if self._views is None:
            self._views = {}
        found = self._views.get(name)
        if found is None:
            found = self._views[name] = _encode(render(self.obj))
        return found

    def supersede(self) -> None:
        """Let go of what can be made again: few will ask for a version that is no longer the present."""
        self._json = self._views = None

    def at(self, rv: int) -> Version:
        """The same content under another resource version."""
        meta = {**self.obj["metadata"], "resourceVersion": str(rv)}
        return Version(self.key, {**self.obj, "metadata": meta}, rv)
