"""Templates of objects: the part of Go's template language that scheduler_perf's files use.

Known are fields (`{{.Index}}`, `{{.Count}}` and the parameters of the operation), numbers, texts, `true` and `false`,
calls with arguments in parentheses or from a pipeline, `{{if}} ... {{else if}} ... {{else}} ... {{end}}`, comments and
the trim markers `{{-` and `-}}`. Functions are the arithmetic ones of scheduler_perf and Go's comparisons, logic and
`printf`. Not known are `range`, `with`, variables and nested templates; and since what comes out is YAML, nothing is
escaped as HTML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from tutti.api.problems import nearest
from tutti_bench.gofunctions import FUNCTIONS, text_of, truth_of

Env = Mapping[str, Any]
Evaluate = Callable[[Env], Any]
Object = dict[str, Any]

_ACTION: Final = re.compile(r"\{\{(- )?(.*?)( -)?\}\}", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<number>[-+]?[0-9]+(?:\.[0-9]+)?)|(?P<text>"(?:[^"\\]|\\.)*"|`[^`]*`)"""
    r"""|(?P<field>\.[A-Za-z_][A-Za-z0-9_]*)|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>[()|]))"""
)
_WORDS: Final = {"true": True, "false": False}
_UNKNOWN: Final = ("range", "with", "define", "template", "block", "break", "continue")


class TemplateError(ValueError):
    """A template that cannot be read or filled in; the text says which, where and why."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """The branches of an `if`, each with its condition; None for `else`."""

    branches: tuple[tuple[Evaluate | None, tuple[_Node, ...]], ...]


_Node = str | Evaluate | _Choice


@dataclass(frozen=True, slots=True)
class Template:
    """A template that has been read; `origin` names it in errors."""

    origin: str
    nodes: tuple[_Node, ...]

    def text(self, env: Env) -> str:
        """Return the text with everything filled in.

        Raises:
            TemplateError: A field is not known, or a function cannot take what it is given.
        """
        try:
            return _fill(self.nodes, env)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise TemplateError(f"{self.origin}: {error}") from None

    def object(self, env: Env) -> Object:
        """Return the object that the text is the YAML of.

        Raises:
            TemplateError: As `text`, or it is not one object.
        """
        try:
            made = yaml.load(self.text(env), Loader=_LOADER)  # noqa: S506 - the C twin of the safe loader
        except yaml.YAMLError as error:
            raise TemplateError(
                f"{self.origin}: no YAML once it is filled in: {' '.join(str(error).split())}"
            ) from None
        if not isinstance(made, dict):
            raise TemplateError(f"{self.origin}: must be one object")
        return made


_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def load(path: Path) -> Template:
    """Read the template at a path, once.

    Raises:
        TemplateError: It cannot be read.
    """
    try:
        return parse(path.read_text("utf-8"), str(path))
    except OSError as error:
        raise TemplateError(f"{path}: cannot be read: {error.strerror}") from None


def parse(text: str, origin: str) -> Template:
    """Read a template.

    Raises:
        TemplateError: It uses what is not known here, or an `if` has no `end`.
    """
    try:
        return Template(origin, _Parser(_pieces(text)).all())
    except ValueError as error:
        raise TemplateError(f"{origin}: {error}") from None


def _pieces(text: str) -> list[str | tuple[str]]:
    """Cut a text into what stands for itself and, as tuples of one, the actions between."""
    pieces: list[str | tuple[str]] = []
    at, trim = 0, False
    for match in _ACTION.finditer(text):
        left, action, right = match.groups()
        before = text[at : match.start()]
        before = before.lstrip() if trim else before
        pieces.append(before.rstrip() if left else before)
        if not action.strip().startswith("/*"):
            pieces.append((action.strip(),))
        at, trim = match.end(), bool(right)
    pieces.append(text[at:].lstrip() if trim else text[at:])
    return [piece for piece in pieces if piece]


class _Parser:
    """Goes through the pieces of a template once."""

    def __init__(self, pieces: Sequence[str | tuple[str]]) -> None:
        self._pieces = list(reversed(pieces))

    def all(self) -> tuple[_Node, ...]:
        nodes, end = self._until_end()
        if end:
            raise ValueError(f"{{{{{end}}}}} without an if")
        return nodes

    def _until_end(self) -> tuple[tuple[_Node, ...], str]:
        """Return the nodes up to an `else` or `end`, and that action; it is empty at the end of the text."""
        nodes: list[_Node] = []
        while self._pieces:
            piece = self._pieces.pop()
            if isinstance(piece, str):
                nodes.append(piece)
                continue
            (action,) = piece
            word = action.split(None, 1)[0] if action else ""
            if word in {"else", "end"}:
                return tuple(nodes), action
            nodes.append(self._choice(action) if word == "if" else _expression(action))
        return tuple(nodes), ""

    def _choice(self, action: str) -> _Choice:
        branches: list[tuple[Evaluate | None, tuple[_Node, ...]]] = []
        condition: Evaluate | None = _expression(action.removeprefix("if"))
        while True:
            nodes, end = self._until_end()
            branches.append((condition, nodes))
            if end == "end":
                return _Choice(tuple(branches))
            if not end or condition is None:
                raise ValueError("an if without its end")
            rest = end.removeprefix("else").strip()
            condition = _expression(rest.removeprefix("if")) if rest else None


def _fill(nodes: Sequence[_Node], env: Env) -> str:
    parts: list[str] = []
    for node in nodes:
        if isinstance(node, str):
            parts.append(node)
        elif isinstance(node, _Choice):
            chosen = next((n for condition, n in node.branches if condition is None or truth_of(condition(env))), ())
            parts.append(_fill(chosen, env))
        else:
            parts.append(text_of(node(env)))
    return "".join(parts)


def _expression(action: str) -> Evaluate:
    tokens = _tokens(action)
    made = _pipeline(tokens)
    if tokens:
        raise ValueError(f"{tokens[-1]!r} is not expected in {{{{{action}}}}}")
    return made


def _tokens(action: str) -> list[str]:
    """Return the words of an action, the last one first."""
    tokens: list[str] = []
    at, stripped = 0, action.strip()
    while at < len(stripped):
        match = _TOKEN.match(stripped, at)
        if match is None:
            raise ValueError(f"{stripped[at:]!r} is not understood in {{{{{stripped}}}}}")
        tokens.append(match[0].strip())
        at = match.end()
    if not tokens:
        raise ValueError("{{}} is empty")
    return tokens[::-1]


def _pipeline(tokens: list[str]) -> Evaluate:
    """Commands in a row, each of which is given what the one before has made as its last argument."""
    made = _command(tokens, None)
    while tokens and tokens[-1] == "|":
        tokens.pop()
        made = _command(tokens, made)
    return made


def _command(tokens: list[str], piped: Evaluate | None) -> Evaluate:
    name = tokens[-1] if tokens else ""
    if not name.isidentifier() or name in _WORDS:
        if piped is not None:
            raise ValueError(f"a pipeline goes on with a function, not with {name!r}")
        return _operand(tokens)
    tokens.pop()
    function = _function(name)
    arguments: list[Evaluate] = []
    while tokens and tokens[-1] not in {")", "|"}:
        arguments.append(_operand(tokens))
    if piped is not None:
        arguments.append(piped)
    return lambda env: function(*(argument(env) for argument in arguments))


def _operand(tokens: list[str]) -> Evaluate:
    if not tokens:
        raise ValueError("something is missing at the end")
    token = tokens.pop()
    if token == "(":  # noqa: S105 - a parenthesis
        inner = _pipeline(tokens)
        if not tokens or tokens.pop() != ")":
            raise ValueError("a parenthesis is not closed")
        return inner
    if token.startswith("."):
        return lambda env: _field(token[1:], env)
    if token in _WORDS:
        return lambda _: _WORDS[token]
    if token[0] in '"`':
        text = token[1:-1].replace('\\"', '"') if token[0] == '"' else token[1:-1]
        return lambda _: text
    if token.isidentifier():
        function = _function(token)
        return lambda _: function()
    try:
        number: int | float = float(token) if "." in token else int(token)
    except ValueError:
        raise ValueError(f"{token!r} is not expected here") from None
    return lambda _: number


def _function(name: str) -> Callable[..., Any]:
    if name in _UNKNOWN:
        raise ValueError(f"{{{{{name}}}}} is not known here")
    if name not in FUNCTIONS:
        raise ValueError(f"there is no function {name!r}; {nearest(name, list(FUNCTIONS))}")
    return FUNCTIONS[name]


def _field(name: str, env: Env) -> Any:
    if name not in env:
        raise ValueError(f"there is no {{{{.{name}}}}}; {nearest(name, list(env))}")
    return env[name]
