"""The pictures in the documentation show what the commands draw today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.views.screens import SCREENS, drawn

PICTURES = Path(__file__).parents[3] / "docs" / "screens"


def words(svg: str) -> list[str]:
    """What is written in a picture, with its colours: how the library arranges that is its own affair."""
    return re.findall(r'<text class="[^"]*-(r\d+)"[^>]*>([^<]*)</text>', svg)


@pytest.mark.parametrize("name", SCREENS)
def test_a_picture_shows_what_its_command_draws(kubeconfig, name: str):
    kept = (PICTURES / f"{name}.svg").read_text()

    assert words(kept)
    assert words(drawn(kubeconfig, SCREENS[name])) == words(kept), "draw it anew: make screens"
