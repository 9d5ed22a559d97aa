"""The two ways in which the play is shown while it goes on: lines, and a live screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from rich.console import Console
from rich.live import Live

from tutti_demo.live import render
from tutti_demo.plain import Teller
from tutti_demo.watching import Observer

LEAST_WIDTH = 80
LEAST_HEIGHT = 22

_TICK_SECONDS = 0.25
_CALM_SECONDS = 0.1
"""At most so often the screen is drawn, however much happens."""


class Show(Protocol):
    """Shows the play while it goes on."""

    def say(self, text: str) -> None:
        """Tell what is done before and after the play."""

    async def follow(self, observer: Observer, *, started_at: float, clock: Callable[[], float]) -> None:
        """Show what is observed until cancelled."""


def show_on(console: Console, *, plain: bool = False) -> Show:
    """Return a live show where there is a terminal large enough for it, else lines."""
    width, height = console.size
    live = console.is_terminal and not console.is_dumb_terminal and width >= LEAST_WIDTH and height >= LEAST_HEIGHT
    return LiveShow(console) if live and not plain else PlainShow(console)


class PlainShow:
    """Prints each thing as it happens."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        """Tell what is done before and after the play."""
        self._console.print(text, soft_wrap=True, markup=False, highlight=False)

    async def follow(self, observer: Observer, *, started_at: float, clock: Callable[[], float]) -> None:  # noqa: ARG002 - as the live show
        """Print what happens until cancelled, and then what is left."""
        teller = Teller(self._console, observer.picture, started_at=started_at)
        try:
            while True:
                teller.catch_up()
                await observer.changed()
        finally:
            teller.catch_up()


class LiveShow:
    """Keeps one screen up to date, and leaves the terminal as it was."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        """Tell what is done before and after the play."""
        self._console.print(text, soft_wrap=True, markup=False, highlight=False, style="bright_black")

    async def follow(self, observer: Observer, *, started_at: float, clock: Callable[[], float]) -> None:
        """Draw the screen with each change, and for the clock, until cancelled."""
        with Live(console=self._console, screen=True, auto_refresh=False) as live:
            while True:
                width, height = self._console.size
                screen = render(observer.picture, at=clock(), started_at=started_at, width=width, height=height)
                live.update(screen, refresh=True)
                with suppress(TimeoutError):
                    await asyncio.wait_for(observer.changed(), _TICK_SECONDS)
                await asyncio.sleep(_CALM_SECONDS)
