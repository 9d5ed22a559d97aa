"""What docstrings name in backticks, modules and what these define, and which of it there is no more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house.source import Module, Tree

_QUOTED = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w/]+\.py")
_NAME = re.compile(r"[A-Z][A-Z_]{3,}|_?[a-z]+(_[a-z]+)+|_[A-Za-z]\w+")
"""Constants, and names of several words: a word alone may be anything, and a name in camel case a field of Kubernetes."""


def dangling(tree: Tree) -> Iterator[str]:
    """Yield what is named and nowhere in a tree: the path of the module that names it, a colon and the name.

    A path is one of the tree from some folder on; a name is anything that some module defines, takes or spells in a text.
    """
    names = {name for module in tree.values() for name in _known(module)}
    paths = {
        "/".join(parts[at:]) for one in tree.values() for parts in [one.path.split("/")] for at in range(len(parts))
    }
    for module in tree.values():
        for text in _docstrings(module):
            for quoted in _QUOTED.findall(text):
                lost = (_PATH.fullmatch(quoted) and quoted not in paths) or (
                    _NAME.fullmatch(quoted) and quoted not in names
                )
                if lost:
                    yield f"{module.path}: {quoted}"


def _docstrings(module: Module) -> Iterator[str]:
    """Yield the texts that stand by themselves: docstrings, and what follows a constant."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def _known(module: Module) -> Iterator[str]:
    """Yield the names in the code of a module, and the words of its texts that are no docstrings."""
    by_themselves = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    yield from module.name.split(".")
    for node in ast.walk(module.tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(text)) if id(node) not in by_themselves:
                yield from re.findall(r"\w+", text)
