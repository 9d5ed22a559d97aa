"""The shape of a document, as merging and field management see it.

A shape says for each place whether its parts are managed one by one, and by which keys the items of a list are told
apart. Shapes are made from the table of built-in types and from the structural schemas of custom resources; where
nothing is known, maps are granular and lists atomic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any


class Form(Enum):
    """How the parts of a value are managed."""

    LEAF = auto()
    STRUCT = auto()
    MAP = auto()
    ATOMIC = auto()
    SET = auto()
    KEYED = auto()


@dataclass(slots=True, eq=False)
class Shape:
    """One place of a document.

    Attributes:
        form: how its parts are managed.
        child: the shape of a field (STRUCT); None where the field is not known.
        item: the shape of map values or list items.
        keys: the fields that tell the items of a KEYED list apart.
        merge_key: the field by which a strategic merge patch joins list items; `.` where it joins plain values, empty
            where it replaces the list; `=` where it replaces even an object.
        defaults: values of `keys` that are taken where an item leaves them out.
    """

    form: Form
    child: Callable[[str], Shape | None] | None = None
    item: Callable[[], Shape] | None = None
    keys: tuple[str, ...] = ()
    merge_key: str = ""
    defaults: dict[str, Any] | None = None
    _fields: dict[str, Shape] = field(default_factory=dict, init=False, repr=False)
    _element: Shape | None = field(default=None, init=False, repr=False)

    def field(self, name: str) -> Shape:
        """The shape of a field or map value; untyped where nothing is known."""
        if self.form is Form.STRUCT and self.child is not None:
            found = self._fields.get(name)
            if found is None:
                found = self.child(name)
                if found is None:
                    return UNTYPED
                self._fields[name] = found
            return found
        return self.element()

    def element(self) -> Shape:
        """The shape of a list's items, or of a map's values."""
        if self._element is None:
            self._element = self.item() if self.item is not None else UNTYPED
        return self._element


OF_OBJECTS = (Form.STRUCT, Form.MAP, Form.ATOMIC)
OF_LISTS = (Form.SET, Form.KEYED)
LEAF = Shape(Form.LEAF)
UNTYPED = Shape(Form.MAP)


def form_of(shape: Shape, value: Any) -> Form:
    """How this value is managed here: a value of another JSON type than the shape expects is a leaf."""
    if isinstance(value, dict):
        return shape.form if shape.form in OF_OBJECTS else Form.LEAF
    if isinstance(value, list):
        return shape.form if shape.form in OF_LISTS else Form.ATOMIC
    return Form.LEAF
