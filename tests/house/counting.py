"""What is counted on a source tree: who takes a class whole, who assigns an attribute, names, lines."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.house.source import Module, Tree, imported


def within(tree: Tree, package: str) -> Tree:
    """The modules of a package and below."""
    return {name: one for name, one in tree.items() if name == package or name.startswith(f"{package}.")}


def takers(tree: Tree, module: str, name: str) -> list[str]:
    """Paths of the files that are given a class of a module whole: as a parameter of a function, or field of a class.

    It may be None, too, and be named by its module; what is made of it (a list, a callable that takes one) is not it.
    """
    given = [one for one in tree.values() if any(_is_given(node, name) for node in ast.walk(one.tree))]
    return [one.path for one in given if one.name == module or module in imported(one, tree)]


def fields(module: Module, name: str) -> int:
    """How many fields a class declares: annotated in its body, or first assigned to `self` in a method.

    Raises:
        LookupError: the module defines no such class.
    """
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            declared = {name for one in node.body for name in _declared(one)}
            own = {to.attr for to in _assigned(node) if isinstance(to.value, ast.Name) and to.value.id == "self"}
            return len(declared | own)
    raise LookupError(f"{module.path} defines no class {name}")


def assigners(tree: Tree, attribute: str) -> list[str]:
    """Paths of the files that assign an attribute of whatever has it, `a.b = c`, `a.b += c` and `a.b, d = c` alike."""
    return [m.path for m in tree.values() if any(to.attr == attribute for to in _assigned(m.tree))]


def defined(tree: Tree) -> Mapping[str, list[str]]:
    """Where each public name is defined: classes and functions at the top of a module; paths, by name.

    Methods, constants and what is imported from elsewhere are no definitions, nor are names with a leading underscore.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for module in tree.values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
                found[node.name].append(module.path)
    return found


def homonyms(tree: Tree) -> dict[str, list[str]]:
    """Public names that more than one module defines, the commonest first: each definition is another thing.

    That is how they are counted: nobody but a reader can tell whether two things of one name mean the same, and
    two that did would be one, imported.
    """
    several = {name: paths for name, paths in defined(tree).items() if len(set(paths)) > 1}
    return dict(sorted(several.items(), key=lambda one: (-len(one[1]), one[0])))


def _is_given(node: ast.AST, name: str) -> bool:
    match node:
        case ast.arg(annotation=kind) if kind is not None:
            return _is_of(kind, name)
        case ast.ClassDef():
            return any(isinstance(one, ast.AnnAssign) and _is_of(one.annotation, name) for one in node.body)
        case _:
            return False


def _is_of(kind: ast.expr, name: str) -> bool:
    match kind:
        case ast.Name(id=said) | ast.Attribute(attr=said):
            return said == name
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _is_of(left, name) or _is_of(right, name)
        case _:
            return False


def _assigned(node: ast.AST) -> Iterator[ast.Attribute]:
    for below in ast.walk(node):
        if isinstance(below, ast.Attribute) and isinstance(below.ctx, ast.Store):
            yield below


def _declared(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
