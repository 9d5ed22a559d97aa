"""How far a benchmark has come: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tutti_bench.run import Reporter


class Show(Reporter, Protocol):
    """A reporter that is entered and left."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def show_on(console: Console, *, plain: bool) -> Show:
    """Return bars where there is a terminal, else lines."""
    return Bars(console) if console.is_terminal and not console.is_dumb_terminal and not plain else Lines(console)


class Lines:
    """A line for each workload and each of its operations."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._operations = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is left to be cleared."""

    def begin(self, name: str, operations: int) -> None:
        """Print the workload's name."""
        self._operations = operations
        self._console.print(name, soft_wrap=True, markup=False)

    def operation(self, number: int, what: str) -> None:
        """Print the operation."""
        self._console.print(f"  {number + 1}/{self._operations} {what}", soft_wrap=True, markup=False)

    def progress(self, done: int, total: int) -> None:
        """Print nothing: a log is not the place for it."""

    def note(self, text: str) -> None:
        """Print it."""
        self._console.print(f"note: {text}", soft_wrap=True, markup=False)


class Bars:
    """A bar for the operation that goes on, below the lines of what is done."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._name = ""
        self._operations = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, name: str, operations: int) -> None:
        """Begin a bar."""
        self._name, self._operations = name, operations

    def operation(self, number: int, what: str) -> None:
        """Put a bar for this operation in the place of the last one's."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        title = f"{self._name} {number + 1}/{self._operations} {what}"
        self._task = self._progress.add_task(title, total=None)

    def progress(self, done: int, total: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self._progress.update(self._task, completed=done, total=total)

    def note(self, text: str) -> None:
        """Print it above the bar."""
        self._progress.console.print(f"note: {text}", soft_wrap=True, markup=False)
