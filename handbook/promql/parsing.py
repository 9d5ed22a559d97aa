"""Reads an expression into a tree; what is not understood is refused with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

AGGREGATIONS = ("sum", "min", "max", "avg", "count")
FUNCTIONS = ("rate", "increase", "histogram_quantile", "time", "absent")
PRECEDENCE = {"or": 1, "and": 2, "unless": 2, **dict.fromkeys(("==", "!=", "<=", "<", ">=", ">"), 3)}
PRECEDENCE |= {"+": 4, "-": 4, "*": 5, "/": 5}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)(?![\w:])|(?P<duration>\d+[smhd])|(?P<word>[a-zA-Z_:][\w:]*)"
    r'|(?P<text>"[^"]*")|(?P<sign>=~|!~|==|!=|<=|>=|[-+*/<>=(){}\[\],]))'
)


class NotUnderstood(ValueError):  # noqa: N818 - it says what is wrong with the expression
    """An expression that is not PromQL, or not of the part that is known here."""


@dataclass(frozen=True)
class Number:
    """A constant."""

    value: float


@dataclass(frozen=True)
class Selector:
    """Series by name and labels; `over` seconds for a range, else 0. Matchers are (label, operator, value)."""

    name: str
    matchers: tuple[tuple[str, str, str], ...] = ()
    over: int = 0


@dataclass(frozen=True)
class Call:
    """A function of its arguments."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Aggregation:
    """What is put together of all series that agree in some labels."""

    how: str
    by: tuple[str, ...]
    of: Expression


@dataclass(frozen=True)
class Binary:
    """Two sides; `on` are the labels by which their series are matched, None for all."""

    sign: str
    left: Expression
    right: Expression
    on: tuple[str, ...] | None = None


Expression = Number | Selector | Call | Aggregation | Binary


def parse(text: str) -> Expression:
    """Read an expression.

    Raises:
        NotUnderstood: it cannot be read.
    """
    reader = _Reader(text)
    found = reader.expression(0)
    if reader.next is not None:
        raise NotUnderstood(f"{text!r}: {reader.next!r} is not expected here")
    return found


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and everything in it."""
    yield expression
    match expression:
        case Call(_, arguments):
            inner = arguments
        case Aggregation(_, _, of):
            inner = (of,)
        case Binary(_, left, right, _):
            inner = (left, right)
        case _:
            inner = ()
    for one in inner:
        yield from walk(one)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise NotUnderstood(f"{text!r}: cannot read {text[at : at + 10]!r}")
            self._tokens.append(found[0].strip())
            at = found.end()

    @property
    def next(self) -> str | None:
        return self._tokens[0] if self._tokens else None

    def take(self, wanted: str = "") -> str:
        if not self._tokens or (wanted and self._tokens[0] != wanted):
            raise NotUnderstood(f"{self._text!r}: {wanted or 'more'!r} is missing before {self.next!r}")
        return self._tokens.pop(0)

    def expression(self, least: int) -> Expression:
        left = self._operand()
        while self.next in PRECEDENCE and PRECEDENCE[self.next] > least:
            sign = self.take()
            on = self._labels() if self.next == "on" and self.take() else None
            left = Binary(sign, left, self.expression(PRECEDENCE[sign]), on)
        return left

    def _operand(self) -> Expression:
        token = self.take()
        if token == "(":
            inner = self.expression(0)
            self.take(")")
            return inner
        if token[0].isdigit():
            return Number(float(token))
        if not re.match(r"[a-zA-Z_:]", token):
            raise NotUnderstood(f"{self._text!r}: {token!r} is not expected here")
        if token in AGGREGATIONS:
            return self._aggregation(token)
        if self.next == "(":
            return self._call(token)
        return self._selector(token)

    def _aggregation(self, how: str) -> Aggregation:
        by = self._labels() if self.next == "by" and self.take() else ()
        self.take("(")
        of = self.expression(0)
        self.take(")")
        return Aggregation(how, by, of)

    def _call(self, name: str) -> Call:
        if name not in FUNCTIONS:
            raise NotUnderstood(f"{self._text!r}: no function {name}")
        self.take("(")
        arguments: list[Expression] = []
        while self.next != ")":
            arguments.append(self.expression(0))
            if self.next == ",":
                self.take()
        self.take(")")
        return Call(name, tuple(arguments))

    def _labels(self) -> tuple[str, ...]:
        self.take("(")
        found: list[str] = []
        while self.next != ")":
            found.append(self.take())
            if self.next == ",":
                self.take()
        self.take(")")
        return tuple(found)

    def _selector(self, name: str) -> Selector:
        matchers: list[tuple[str, str, str]] = []
        if self.next == "{":
            self.take()
            while self.next != "}":
                label, sign, value = self.take(), self.take(), self.take()
                if sign not in ("=", "!=", "=~", "!~") or not value.startswith('"'):
                    raise NotUnderstood(f"{self._text!r}: {label}{sign}{value} matches nothing")
                matchers.append((label, sign, value.strip('"')))
                if self.next == ",":
                    self.take()
            self.take()
        over = 0
        if self.next == "[":
            self.take()
            duration = self.take()
            if duration[-1] not in SECONDS:
                raise NotUnderstood(f"{self._text!r}: {duration!r} is no duration")
            over = int(duration[:-1]) * SECONDS[duration[-1]]
            self.take("]")
        return Selector(name, tuple(matchers), over)
