"""The frame of everything users write: strict, immutable, camelCase, with rules that the API server checks too.

A `ValidationRule` is stated twice, in Python for whoever reads an object and in CEL for the API server, and tests hold
the two together; so an object that was stored before a rule existed is still told what is wrong with it.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar

import msgspec
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from tutti.api import quantity

GROUP = "scheduling.tutti.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

_COMMON = ConfigDict(
    alias_generator=to_camel,
    populate_by_name=True,
    frozen=True,
    arbitrary_types_allowed=True,
)
STRICT = ConfigDict(**_COMMON, extra="forbid")
LENIENT = ConfigDict(**_COMMON, extra="ignore")
_QUANTITY_PATTERN = r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?[0-9]+))?$"
QUANTITY_SCHEMA: dict[str, Any] = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": _QUANTITY_PATTERN,
    "maxLength": 64,
}
"""The schema of a quantity: a number or text."""

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""RFC 1123 subdomain: what the name of an object may be."""

LABEL_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
)
"""Qualified name: what a label key or the name of a resource may be."""

_Read = TypeVar("_Read", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRule:
    """Something that must hold between the fields of one object.

    `holds` decides it in Python; None where only the API server can (it compares with the old object).
    `cel` decides it in the API server; None where the estimated cost would be above its budget.
    """

    message: str
    holds: Callable[[Any], bool] | None = None
    cel: str | None = None
    path: str = ""
    """The field that the API server names in its answer, such as `.minCount`."""

    def to_schema(self) -> dict[str, str]:
        """Its entry in `x-kubernetes-validations`."""
        entry = {"rule": self.cel or "", "message": self.message}
        return entry | {"fieldPath": self.path} if self.path else entry


def _itself(value: _Read, memo: dict[int, Any] | None = None) -> _Read:
    """Copy what nobody changes: pydantic copies a default in depth for each object that leaves the field out."""
    del memo
    return value


class Described(BaseModel):
    """Whose schema says of each field what the text below it says.

    Only who writes a schema reads the source for that: to have pydantic do it (`use_attribute_docstrings`) would take
    every command and every start of the operator a tenth of a second.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        json_schema = handler.resolve_ref_schema(handler(schema))
        texts = {name: text for one in reversed(cls.__mro__) for name, text in _texts_below_fields(one).items()}
        for name, field in cls.model_fields.items():
            if name in texts:
                called = field.alias if field.alias in json_schema["properties"] else name  # as whoever asks wants
                json_schema["properties"][called].setdefault("description", texts[name])
        return json_schema


@cache
def _texts_below_fields(model: type) -> Mapping[str, str]:
    """Return the text below each field that a class of ours has itself; nothing where there is no source."""
    if not issubclass(model, Described):
        return {}
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    except (OSError, TypeError):
        return {}
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    }


class Model(Described):
    """A part of what users write; an unknown field is an error, and `RULES` are checked after the fields."""

    model_config = STRICT
    __deepcopy__ = _itself
    RULES: ClassVar[tuple[ValidationRule, ...]] = ()

    @model_validator(mode="after")
    def check_rules(self) -> Self:
        """Check `RULES` in order; the first that does not hold is the error."""
        for rule in self.RULES:
            if rule.holds is not None and not rule.holds(self):
                raise ValueError(rule.message)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        json_schema = super().__get_pydantic_json_schema__(schema, handler)
        rules = [rule.to_schema() for rule in cls.RULES if rule.cel]
        if rules:
            json_schema["x-kubernetes-validations"] = rules
        return json_schema


class Lenient(Described):
    """A part that controllers write: what is not known here is left alone, since a newer version may know it."""

    model_config = LENIENT
    __deepcopy__ = _itself


class Metadata(Lenient):
    """The metadata that is read; the rest (managedFields, ...) is left to the API server."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []


@dataclass(frozen=True, slots=True)
class Record:
    """Marks a field that users write like `mirror` and that is kept as the msgspec record it is annotated with."""

    struct: type[msgspec.Struct]
    mirror: type[Model]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The mirror's validation, then the conversion; a record that already is one passes through the same."""
        return core_schema.no_info_before_validator_function(
            self._plain,
            core_schema.no_info_after_validator_function(self._convert, handler.generate_schema(self.mirror)),
            serialization=core_schema.plain_serializer_function_ser_schema(self._written),
        )

    def _plain(self, value: Any) -> Any:
        return self._written(value) if isinstance(value, self.struct) else value

    def _written(self, record: msgspec.Struct) -> dict[str, Any]:
        """Return what users would write: a record leaves out its defaults, of which the mirror may require some."""
        said: dict[str, Any] = msgspec.to_builtins(record)
        for name, field in self.mirror.model_fields.items():
            if field.is_required():
                said.setdefault(field.alias or name, msgspec.to_builtins(getattr(record, name)))
        return said

    def _convert(self, value: Model) -> msgspec.Struct:
        return msgspec.convert(value.model_dump(by_alias=True, exclude_none=True), self.struct)


def list_map(key: str) -> dict[str, Any]:
    """Schema of a list whose items are told apart by `key`, for server-side apply and uniqueness."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


ATOMIC: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}
"""Schema of a list that is replaced as a whole."""

Quantity = Annotated[
    int,
    BeforeValidator(quantity.parse_quantity),
    Field(ge=0),
    PlainSerializer(quantity.shortest),
    WithJsonSchema(QUANTITY_SCHEMA | {"minimum": 0}),
]
"""An amount that is not negative: users write a quantity, it is kept as milli-units (`tutti.api.quantity`)."""

QuantityText = Annotated[str, BeforeValidator(str), WithJsonSchema(QUANTITY_SCHEMA)]
"""An amount that a controller has written, as text."""

Name = Annotated[str, Field(max_length=253, pattern=NAME_PATTERN)]
"""The name of an object."""

ShortName = Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""The name of a part of an object: an RFC 1123 label."""

ResourceName = Annotated[str, Field(max_length=317, pattern=LABEL_PATTERN)]
"""The name of a resource: cpu, memory, nvidia.com/gpu."""

LabelKey = Annotated[str, Field(max_length=317, pattern=LABEL_PATTERN)]
"""The key of a label, of a node or a pod."""

Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""A number of things, as int32."""


class PrinterColumn(NamedTuple):
    """A column of `kubectl get`; one of priority 1 is shown with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    description: str = ""


ACTIVE_COLUMN = PrinterColumn("Active", '.status.conditions[?(@.type=="Active")].status')
WHY_INACTIVE_COLUMN = PrinterColumn("Why", '.status.conditions[?(@.type=="Active")].message', priority=1)
AGE_COLUMN = PrinterColumn("Age", ".metadata.creationTimestamp", "date")


class Object(Described):
    """The frame of a kind: what it is called, whether it lives in a namespace, how `kubectl get` shows it."""

    model_config = STRICT
    __deepcopy__ = _itself
    KIND: ClassVar[str]
    PLURAL: ClassVar[str]
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ()
    NAMESPACED: ClassVar[bool] = False
    COLUMNS: ClassVar[tuple[PrinterColumn, ...]] = (AGE_COLUMN,)

    api_version: str = ""
    kind: str = ""
    metadata: Metadata = Metadata()
