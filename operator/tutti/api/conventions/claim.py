"""What a pod says about itself, whichever convention it says it in."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_MAX_NAME = 253
_MOST_SHOWN = 64


class ConventionError(ValueError):
    """A pod that says something which cannot be read; `where` is the label or annotation, the message what is right."""

    def __init__(self, message: str, where: str) -> None:
        super().__init__(f"{where}: {message}")
        self.message = message
        self.where = where


class TopologyClaim(msgspec.Struct, frozen=True, omit_defaults=True):
    """How near one another pods want to be."""

    mode: str = "Unconstrained"
    """Required, Preferred or Unconstrained."""
    level: str = ""
    """The node label that the mode speaks of."""
    slices: tuple[tuple[str, int], ...] = ()
    """Node label and size of the slices, the widest first."""
    group: str = ""
    """Pods of the same group go to one domain; empty: pods that are alike do."""


class Claim(msgspec.Struct, frozen=True, omit_defaults=True, weakref=True):
    """Which gang, workload and queue a pod belongs to; empty where it names none.

    `group` is the name of a PodGroup in the pod's namespace. It exists as an object, unless `implicit`: then it exists
    only as labels and annotations, and one with `min_count` is to be made for it.
    """

    convention: str = ""
    namespace: str = ""
    group: str = ""
    workload: str = ""
    queue: str = ""
    priority_class: str = ""
    min_count: int | None = None
    """How many members must be placed at once; None: the PodGroup object says."""
    count: int | None = None
    """How many members there will be; None: nobody has said."""
    timeout_seconds: int | None = None
    """How long a complete reservation may be held; None: the configured default."""
    timeout_jitter_seconds: int = 0
    """Up to how much longer, by chance, so that those that wait for one another do not give up together."""
    implicit: bool = False
    role: str = ""
    """Which part of the group it is, where a group is made of several; each of them is a pod group of its own."""
    roles: tuple[tuple[str, int], ...] = ()
    """The parts that the pod knows of, and how many members each must have; 0: members of that part say."""
    templates: dict[str, dict[str, Any]] = {}
    """What members of a part will be like, as a pod template; of parts that are not here nobody says."""
    style: str = ""
    """Soft or Hard: the gang starts when there is room for all of it, and so is placed one by one, or given up, when
    there is none for too long. Empty: it starts when all of it is there."""
    most: int | None = None
    """How many members may have a node at once; None: all there are."""
    object: str = ""
    """The name of the object that says how large the group is, where it is not that of the group."""
    task: str = ""
    """Which part of the group it is, where the object that says how large the group is counts by parts."""
    leaves_together: bool = False
    """Whether all members are deleted with the first that is."""
    topology: TopologyClaim | None = None
    """How near one another pods like this want to be; None: the PodGroup object says, or nobody."""


def label(key: str) -> str:
    """How a label is named in messages."""
    return f"metadata.labels[{key}]"


def annotation(key: str) -> str:
    """How an annotation is named in messages."""
    return f"metadata.annotations[{key}]"


def shown(text: str) -> str:
    """How text that is wrong stands in a message: quoted, and no longer than tells which it is."""
    return repr(text) if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]!r}... ({len(text)} characters)"


def existing_name(text: str, where: str) -> str:
    """`text` as the name of an object that somebody has made; empty stays empty.

    Raises:
        ConventionError: no object can have this name.
    """
    if text and not is_name(text):
        raise ConventionError(
            f"{shown(text)} cannot be the name of an object: use lower case letters, digits, '-' and '.'", where
        )
    return text


def object_name(text: str) -> str:
    """A name for the object that is made for `text`: itself if it may be one, else a likeness with a hash of it."""
    if is_name(text):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    likeness = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:200].strip("-")
    return f"{likeness}-{digest}" if likeness else f"group-{digest}"


def is_name(text: str) -> bool:
    """Whether an object can have this name (RFC 1123 subdomain)."""
    return len(text) <= _MAX_NAME and _NAME.fullmatch(text) is not None
