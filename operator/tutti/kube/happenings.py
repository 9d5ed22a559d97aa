"""What can be reported: an event, and the objects it is about, before it is anything on the wire."""

from __future__ import annotations

from typing import Final

import msgspec

LONGEST_NOTE: Final = 1024
"""kube-apiserver refuses longer notes (core validation, NoteLengthLimit)."""


class Reference(msgspec.Struct, frozen=True):
    """The object an event is about, or is related to."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return it as a core/v1 ObjectReference."""
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
        }
        return {name: value for name, value in fields.items() if value}


class Happening(msgspec.Struct, frozen=True):
    """One event as its reporter says it; equal ones are repeats of each other.

    `type` is Normal or Warning, `action` what was done about it; both are required by the server, as is `reason`.
    """

    regarding: Reference
    reason: str
    note: str
    action: str
    type: str = "Normal"
    related: Reference | None = None


def cut(note: str) -> str:
    """Return the note within the server's limit, which counts bytes; a cut one ends in an ellipsis."""
    encoded = note.encode()
    if len(encoded) <= LONGEST_NOTE:
        return note
    return encoded[: LONGEST_NOTE - 3].decode("utf-8", "ignore") + "..."
