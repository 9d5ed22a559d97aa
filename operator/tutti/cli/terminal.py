"""Where the commands write: on a terminal that obeys nobody but us.

Names, messages and annotations are texts of users. One that holds control characters could clear the screen, hide
lines or set the title of the terminal of whoever looks at it; so these are shown, as kubectl shows them, and not sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from tutti.api.messages import escape_controls


class Terminal(Console):
    """A console that shows the control characters of what it is given; those of its own colours it sends.

    Nor does it read rich's markup and emoji codes in texts: what is ours says so where it is printed.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield what is drawn, with control characters made visible; lines end where they ended."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else escape_controls(text), style, control)


def echo(text: str, **options: Any) -> None:
    """Write a line that may hold texts of users."""
    click.echo(escape_controls(text), **options)
