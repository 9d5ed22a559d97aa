"""Other processes of ours, of the demo or a benchmark: started, watched, killed on request, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_TAIL_LINES = 15
_GRACE_SECONDS = 5.0
_TUTTI = "from tutti.cli.main import main; main()"


class ChildDied(Exception):  # noqa: N818 - reads as what happened
    """A process of ours has ended on its own; the text holds the end of its log."""

    def __init__(self, name: str, code: int, log: Path) -> None:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        super().__init__(f"the {name} {how}; the end of its log, {log}:\n{tail(log)}")
        self.name = name
        self.code = code


def tail(log: Path, lines: int = _TAIL_LINES) -> str:
    """The last lines of a log, indented."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:]) or "  (it is empty)"


class Child:
    """One process of ours, which writes its output to a log file."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None
        self._copying: asyncio.Task[None] | None = None
        self._spoke = asyncio.Event()
        self._back: asyncio.Event | None = None

    @property
    def pid(self) -> int:
        """The process id of the process as it was last started."""
        return self._started.pid

    @property
    def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise RuntimeError(f"the {self.name} has not been started")
        return self._process

    async def start(self) -> None:
        """Start the process, apart from our terminal, so that a Ctrl-C is ours to pass on."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "TMPDIR": str(self.log.parent)},  # what a killed process leaves goes with the logs
            )
        self._copying = asyncio.create_task(self._copy(self._process), name=f"log of {self.name}")

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once `holds` is so; it is asked again with each line that the process prints.

        Raises:
            ChildDied: The process has ended before.
        """
        while not holds():
            spoke = self._spoke
            if self._copying is None or self._copying.done():
                raise ChildDied(self.name, await self._started.wait(), self.log)
            await spoke.wait()

    async def _copy(self, process: asyncio.subprocess.Process) -> None:
        """Append what the process prints to its log."""
        assert process.stdout is not None  # it was started with a pipe
        try:
            async for line in process.stdout:
                with self.log.open("ab") as log:
                    log.write(line)
                self._wake()
        finally:
            self._wake()

    def _wake(self) -> None:
        self._spoke.set()
        self._spoke = asyncio.Event()

    async def supervise(self) -> None:
        """Start the process again after each `crash`, for ever.

        Raises:
            ChildDied: It has ended without being told to.
        """
        while True:
            code = await self._started.wait()
            if self._back is None:
                raise ChildDied(self.name, code, self.log)
            await self.start()
            self._back.set()
            self._back = None

    async def crash(self) -> None:
        """Kill the process as kill -9 does, and return once `supervise` has started it again."""
        back = self._back = asyncio.Event()
        self._signal(signal.SIGKILL)
        await back.wait()

    async def stop(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        """Ask the process to end, and end it where it does not."""
        if self._process is None:
            return
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_seconds):
                await self._process.wait()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self._process.wait()
        if self._copying is not None:
            await self._copying

    def _signal(self, number: signal.Signals) -> None:
        if self._started.returncode is None:
            with suppress(ProcessLookupError):  # it has just ended on its own
                os.kill(self.pid, number)


class Children:
    """All processes of ours; an async context manager that ends them, the last started first."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._children: list[Child] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in reversed(self._children):
            await child.stop()

    async def start(self, name: str, *arguments: str) -> Child:
        """Start `tutti` with these arguments."""
        child = Child(name, (sys.executable, "-c", _TUTTI, *arguments), self.directory / f"{name}.log")
        self.adopt(child)
        await child.start()
        return child

    def adopt(self, child: Child) -> None:
        """Have this process ended with the others."""
        self._children.append(child)
