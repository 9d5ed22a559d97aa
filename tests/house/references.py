"""What docstrings and pages name in backticks, modules and what these define, and which of it there is no more."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from tests.house.source import Module, Tree

_QUOTED = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w/]+\.py")
_NAME = re.compile(r"[A-Z][A-Z_]{3,}|_?[a-z]+(_[a-z]+)+|_[A-Za-z]\w+")
"""Constants, and names of several words: a word alone may be anything, and a name in camel case a field of Kubernetes."""
_BRACED = re.compile(r"\{([^{}]*)\}")
_PATTERN = re.compile(r"[\w/{},*]+\.py")
_CLASS = re.compile(r"_?[A-Z][a-z]\w*")
_MEMBER = re.compile(r"(_?[A-Z][a-z]\w*)\.(\w+)")
_DOTTED = re.compile(r"\w+(?:\.\w+)*(?<!\.md)")
_DEFINED_IN = re.compile(r"`([\w.]+)`,? \((?:in )?`([\w/]+\.py)`")


def dangling(tree: Tree) -> Iterator[str]:
    """Yield what is named and nowhere in a tree: the path of the module that names it, a colon and the name.

    A path is one of the tree from some folder on; a name is anything that some module defines, takes or spells in a text.
    """
    names, paths = _names(tree), _ends_of_paths(tree)
    for module in tree.values():
        for text in _docstrings(module):
            for quoted in _QUOTED.findall(text):
                lost = (_PATH.fullmatch(quoted) and quoted not in paths) or (
                    _NAME.fullmatch(quoted) and quoted not in names
                )
                if lost:
                    yield f"{module.path}: {quoted}"


def dangling_in(pages: Mapping[str, str], tree: Tree) -> Iterator[str]:
    """Yield what pages in Markdown name in backticks and a tree has not: the page, a colon and the name.

    A path is one of the tree from some folder on, with `{one,other}` and `*` as a shell has them. A name is anything
    that some module defines, takes or spells in a text; of `Class.member` the class has the member, and of a name with
    a path behind it in brackets, "`name` (`path.py`)", the module has the name.
    """
    names, paths, classes = _names(tree), _ends_of_paths(tree), _classes(tree)

    def is_lost(quoted: str) -> bool:
        if _PATTERN.fullmatch(quoted):
            return not all(one in paths or any(fnmatchcase(path, one) for path in paths) for one in _spelled(quoted))
        member = _MEMBER.fullmatch(quoted)
        if member is not None:
            return not any(member[2] in _known(one) for one in classes.get(member[1], ()))
        parts = quoted.split(".") if _DOTTED.fullmatch(quoted) else []
        return any((_NAME.fullmatch(one) or _CLASS.fullmatch(one)) and one not in names for one in parts)

    for page, text in pages.items():
        prose = " ".join(re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE).split())
        yield from (f"{page}: {quoted}" for quoted in _QUOTED.findall(prose) if is_lost(quoted))
        for name, path in _DEFINED_IN.findall(prose):
            known = [{*_known(one.tree)} for one in tree.values() if f"/{one.path}".endswith(f"/{path}")]
            if known and not any({*name.split(".")} <= theirs for theirs in known):
                yield f"{page}: {name} in {path}"


def _names(tree: Tree) -> set[str]:
    """Return what all modules know, and what they are called."""
    known = {name for module in tree.values() for name in _known(module.tree)}
    return known | {part for module in tree.values() for part in module.name.split(".")}


def _ends_of_paths(tree: Tree) -> set[str]:
    """Return the paths of all modules, each from every folder on."""
    split = [module.path.split("/") for module in tree.values()]
    return {"/".join(parts[at:]) for parts in split for at in range(len(parts))}


def _spelled(path: str) -> list[str]:
    """Return the paths that one with `{one,other}` in it stands for."""
    found = _BRACED.search(path)
    if found is None:
        return [path]
    before, after = path[: found.start()], path[found.end() :]
    return [one for word in found[1].split(",") for one in _spelled(f"{before}{word}{after}")]


def _classes(tree: Tree) -> dict[str, list[ast.ClassDef]]:
    """Return the classes of all modules by their names, which several may have."""
    found: dict[str, list[ast.ClassDef]] = defaultdict(list)
    for node in (node for module in tree.values() for node in module.tree.body):
        if isinstance(node, ast.ClassDef):
            found[node.name].append(node)
    return found


def _docstrings(module: Module) -> Iterator[str]:
    """Yield the texts that stand by themselves: docstrings, and what follows a constant."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def _known(code: ast.AST) -> Iterator[str]:
    """Yield the names in some code, and the words of its texts that are no docstrings."""
    by_themselves = {id(node.value) for node in ast.walk(code) if isinstance(node, ast.Expr)}
    for node in ast.walk(code):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(text)) if id(node) not in by_themselves:
                yield from re.findall(r"\w+", text)
