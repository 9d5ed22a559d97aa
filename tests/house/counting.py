"""What is counted on a source tree: who takes a class whole, who assigns an attribute, names, lines."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.house.source import Tree, imported


def within(tree: Tree, package: str) -> Tree:
    """The modules of a package and below."""
    return {name: one for name, one in tree.items() if name == package or name.startswith(f"{package}.")}


def takers(tree: Tree, module: str, name: str) -> list[str]:
    """Paths of the files that are given a class of a module whole: as a parameter of a function, or field of a class.

    It may be None, too, and be named by its module; what is made of it (a list, a callable that takes one) is not it.
    """
    given = [one for one in tree.values() if any(_is_given(node, name) for node in ast.walk(one.tree))]
    return [one.path for one in given if one.name == module or module in imported(one, tree)]


def fields(tree: Tree, module: str, name: str) -> set[str]:
    """Fields that a class and those that it extends declare: annotated in a body, or first assigned to `self`.

    Raises:
        LookupError: the module defines no such class.
    """
    found = set[str]()
    for where, node in lineage(tree, module, name):
        found |= {field for one in node.body for field in _declared(one)}
        if where == module:
            found |= {to.attr for to in _assigned(node) if isinstance(to.value, ast.Name) and to.value.id == "self"}
    return found


def lineage(tree: Tree, module: str, name: str) -> list[tuple[str, ast.ClassDef]]:
    """A class and all that it extends, each once with its module; those from outside the tree are left out.

    Raises:
        LookupError: the module defines no such class.
    """
    node = next((one for one in tree[module].tree.body if isinstance(one, ast.ClassDef) and one.name == name), None)
    if node is None:
        raise LookupError(f"{tree[module].path} defines no class {name}")
    found = {(module, name): node}
    for base in (one.id for one in node.bases if isinstance(one, ast.Name)):
        where = _home(tree, module, base)
        if where is not None:
            found |= {(above, one.name): one for above, one in lineage(tree, where, base)}
    return [(where, one) for (where, _), one in found.items()]


def seen(tree: Tree, module: str, name: str) -> list[int]:
    """How many fields of a class each file sees that takes it or one that it extends: of the largest that it takes."""
    sizes = {one.name: len(fields(tree, where, one.name)) for where, one in lineage(tree, module, name)}
    taken: dict[str, int] = {}
    for where, one in lineage(tree, module, name):
        for path in takers(tree, where, one.name):
            taken[path] = max(taken.get(path, 0), sizes[one.name])
    return list(taken.values())


def _home(tree: Tree, module: str, name: str) -> str | None:
    """The module of the tree that a class is from that a module names."""
    for node in tree[module].tree.body:
        match node:
            case ast.ClassDef(name=own) if own == name:
                return module
            case ast.ImportFrom(module=base) if base in tree and any(alias.name == name for alias in node.names):
                return base
    return None


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
