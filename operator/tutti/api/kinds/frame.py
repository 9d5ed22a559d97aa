"""The frame of a kind: what it is called, where it lives, how `kubectl get` shows it."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from pydantic import BaseModel

from tutti.api.model import STRICT, Metadata


class Column(NamedTuple):
    """A column of `kubectl get`; one of priority 1 is shown with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    description: str = ""


AGE = Column("Age", ".metadata.creationTimestamp", "date")


class Object(BaseModel):
    """The frame of a kind: what it is called, whether it lives in a namespace, how `kubectl get` shows it."""

    model_config = STRICT
    KIND: ClassVar[str]
    PLURAL: ClassVar[str]
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ()
    NAMESPACED: ClassVar[bool] = False
    COLUMNS: ClassVar[tuple[Column, ...]] = (AGE,)

    api_version: str = ""
    kind: str = ""
    metadata: Metadata = Metadata()
