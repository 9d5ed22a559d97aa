"""docs/security.md names a test for every threat, and each of them exists."""

from __future__ import annotations

import ast
import functools
import re

import pytest

from tests.manifests.check import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| threat |", "| rights |"))
]
ATTACKS = "tests/hostile/test_attacks.py"


@functools.cache
def named_in(file):
    """The names of a file's tests."""
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_what_holds_a_line_is_there(row):
    assert all(row)
    named = re.findall(r"`((?:tests|e2e)/[\w/]+\.py)::(test_\w+)`", row[-1])
    assert named
    assert [f"{file}::{name}" for file, name in named if name not in named_in(file)] == []


def test_every_attack_that_is_tried_is_on_the_page():
    tried = {name for name in named_in(ATTACKS) if name.startswith("test_")}
    assert tried
    assert tried == set(re.findall(rf"`{ATTACKS}::(test_\w+)`", PAGE))
