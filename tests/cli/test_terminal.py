"""Texts of users give a terminal no orders, however they are printed."""

from __future__ import annotations

import io
import re

import pytest
import structlog
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tutti.api.messages import escape_controls
from tutti.cli.terminal import Terminal, echo
from tutti.cli.views.command_line import plain
from tutti.controller import logs

ATTACKS = {
    "clears the screen": "x\x1b[2J\x1b[31mPWNED",
    "sets the title": "x\x1b]0;PWNED\x07",
    "C1, as one character": "x\x9b2JPWNED",
    "goes back over the line": "x\r\x08PWNED",
    "turns the direction": "x\u202ePWNED\u2066",
}
ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
COLOURS = re.compile("\x1b\\[[0-9;]*m")
"""What a terminal is told by us."""


def table_of(text: str) -> Table:
    table = Table("name", text)
    table.add_row(text, Text(text, style="red"))
    table.add_row(Panel(Text(text)), "")
    return table


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_text_of_a_user_orders_a_terminal_nothing(attack):
    out = io.StringIO()
    terminal = Terminal(file=out, force_terminal=True, color_system="truecolor", width=200, highlight=False)
    terminal.print(table_of(ATTACKS[attack]))
    terminal.print(ATTACKS[attack], style="green", markup=False)
    written = out.getvalue()
    assert "\x1b[31m" in written, "colours of ours are sent"
    assert "PWNED" in written
    assert ATTACKS[attack] not in written
    assert not ORDERS.search(COLOURS.sub("", written))
    if "\x1b" in ATTACKS[attack]:  # rich itself leaves out what rings the bell and goes back over the line
        assert escape_controls("\x1b") in written


@pytest.mark.parametrize("text", ["[/x]", "[link=https://evil.example]Job[/link]", "[red]x", ":warning:"])
def test_markup_in_a_text_of_a_user_is_text(text):
    out = io.StringIO()
    terminal = Terminal(file=out, force_terminal=True, width=200, highlight=False)
    terminal.print(table_of(text))
    assert COLOURS.sub("", out.getvalue()).count(text) >= 3
    assert "\x1b]8" not in out.getvalue()
    assert plain(table_of(text)).count(text) >= 3


@pytest.mark.parametrize("attack", ATTACKS)
def test_nor_where_there_is_no_terminal(attack, capsys):
    echo(ATTACKS[attack], err=True)
    written = plain(table_of(ATTACKS[attack])) + capsys.readouterr().err
    assert not ORDERS.search(written)
    assert escape_controls(ATTACKS[attack]) in written, "on the line of the error at least"


@pytest.mark.parametrize("style", ["json", "console"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_nor_in_a_log_in_which_no_line_can_be_forged(attack, style):
    out = io.StringIO()
    before = structlog.get_config()
    try:
        logs.configure(style, stream=out)
        structlog.get_logger().warning("told", name=f"{ATTACKS[attack]}\n2026-11-22 forged")
    finally:
        structlog.configure(**before)
    assert not ORDERS.search(out.getvalue())
    assert out.getvalue().count("\n") == 1


def test_what_is_no_control_character_is_left_alone():
    assert escape_controls("größer\t≥ 3 GPUs\nnext 日本") == "größer\t≥ 3 GPUs\nnext 日本"
