"""A terminal of eighty columns, as people still have: no line is longer, and no number, name or reason is cut."""

from __future__ import annotations

import io
from contextlib import suppress

import pytest
from rich.console import Console

from tests.cli.views.golden import VIEWS
from tests.cli.views.staging import on


def shown(kubeconfig, line: str, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, highlight=False)
    with suppress(SystemExit):  # a drain that should not be: its exit code says so
        on(console, kubeconfig, *line.split())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("width", [80, 100, 120])
def test_nothing_is_cut_where_there_is_little_room(kubeconfig, name: str, width: int):
    lines = shown(kubeconfig, VIEWS[name], width)

    assert lines
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)


def test_less_is_said_on_a_narrow_terminal(kubeconfig):
    narrow, wide = (shown(kubeconfig, "gangs", width)[0].split() for width in (80, 120))

    assert set(wide) - set(narrow) == {"NEEDS", "BOUND", "AT"}
