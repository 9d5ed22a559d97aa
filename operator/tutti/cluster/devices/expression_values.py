"""What values of Kubernetes' own types are in expressions: how they are declared, checked and handed over.

An expression is checked with these types, as the API server does, and evaluated with maps of one entry in their place,
which no expression can take apart by accident: `==` of two of them compares what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cel_expr_python import cel

ObjectMap = dict[str, Any]
TEXT, BOOL, INT, ANY = cel.Type.STRING, cel.Type.BOOL, cel.Type.INT, cel.Type.DYN
OBJECT: Final = cel.Type.Map(TEXT, ANY)
LIST: Final = cel.Type.List(ANY)

QUANTITY, VERSION, ADDRESS, NETWORK, URL, FORMAT = "#quantity", "#version", "#ip", "#cidr", "#url", "#format"
QUANTITY_TYPE: Final = cel.Type.AbstractType("kubernetes.Quantity")
VERSION_TYPE: Final = cel.Type.AbstractType("kubernetes.Semver")
ADDRESS_TYPE: Final = cel.Type.AbstractType("net.IP")
NETWORK_TYPE: Final = cel.Type.AbstractType("net.CIDR")
URL_TYPE: Final = cel.Type.AbstractType("kubernetes.URL")
FORMAT_TYPE: Final = cel.Type.AbstractType("kubernetes.NamedFormat")

TYPE_NAMES: Final = {
    QUANTITY: "kubernetes.Quantity",
    VERSION: "kubernetes.Semver",
    ADDRESS: "net.IP",
    NETWORK: "net.CIDR",
    URL: "kubernetes.URL",
    FORMAT: "kubernetes.NamedFormat",
}
"""What values of our own are called, by the key of their one entry."""


class SelectorError(Exception):
    """An expression that cannot be compiled or evaluated, or that is not about true and false."""


@dataclass(frozen=True, slots=True)
class Overload:
    """A function, for arguments of certain types.

    Attributes:
        takes: Their types, the object that it is called of first.
        returns: The type of what it returns.
        does: The function.
        hands_over: What it returns while an expression is evaluated, where that is not `returns` with maps in place of
            our types.
        member: Whether it is called as `x.name(...)`.
    """

    takes: Sequence[Any]
    returns: Any
    does: Callable[..., Any]
    hands_over: Any = None
    member: bool = True


@dataclass(frozen=True, slots=True)
class Function:
    """A function of expressions; `member`: it is called as `x.name(...)`, as far as its overloads are."""

    name: str
    overloads: Sequence[Overload]
    member: bool = True

    def checked(self) -> Any:
        """Return it as expressions are checked with it."""
        return cel.FunctionDecl(self.name, [self._declared(at, one) for at, one in enumerate(self.overloads)])

    def evaluated(self) -> Any:
        """Return it as expressions are evaluated with it: of overloads that are then the same, the first."""
        distinct: dict[tuple[bool, tuple[str, ...]], Any] = {}
        for at, one in enumerate(self.overloads):
            key = (one.member, tuple(_evaluated(kind).name() for kind in one.takes))
            if key not in distinct:
                distinct[key] = self._implemented(at, one)
        return cel.FunctionDecl(self.name, list(distinct.values()))

    def _declared(self, at: int, one: Overload) -> Any:
        return cel.Overload(
            f"k8s_{self.name}_{at}",
            return_type=one.returns,
            parameters=one.takes,
            is_member=self.member and one.member,
        )

    def _implemented(self, at: int, one: Overload) -> Any:
        return cel.Overload(
            f"k8s_{self.name}_{at}",
            return_type=_evaluated(one.hands_over or one.returns),
            parameters=[_evaluated(kind) for kind in one.takes],
            is_member=self.member and one.member,
            impl=one.does,
        )


def _evaluated(kind: Any) -> Any:
    """Return the type that values of a type have while an expression is evaluated."""
    if kind.name() in TYPE_NAMES.values():
        return OBJECT
    return LIST if kind.name().startswith("LIST<") else kind


def content_of(value: ObjectMap, key: str) -> str:
    """Return what is in a value of our own.

    Raises:
        SelectorError: It is of another type.
    """
    content: str | None = value.get(key)
    if content is None:
        raise SelectorError("no such overload")
    return content
