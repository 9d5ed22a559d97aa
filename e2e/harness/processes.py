"""Processes that a story needs beside it, the ports they listen on, and waiting for what they do."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol, Self

PATIENCE = 300
"""Seconds after which what is waited for will not come: far more than it takes on a slow and busy machine."""

# Below what systems give to connections that go out (Linux from 32,768, others from 49,152): a port from there may be
# such a connection's by the time somebody listens on it, and stays so for as long as a watch lasts.
_PORTS = range(15_000, 32_000)
_next_port = itertools.count(random.randrange(len(_PORTS)))  # others look for ports beside this process: not all at one


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on, and that no connection which goes out is given.

    Raises:
        OSError: As many are not free on this machine.
    """
    ports: list[int] = []
    for number in itertools.islice(_next_port, len(_PORTS)):
        port = _PORTS[number % len(_PORTS)]
        if len(ports) == count:
            break
        with socket.socket() as held, contextlib.suppress(OSError):
            held.bind(("", port))
            ports.append(port)
    if len(ports) < count:
        raise OSError(errno.EADDRINUSE, f"of the ports {_PORTS.start} to {_PORTS.stop - 1} fewer than {count} are free")
    return ports


def free_port() -> int:
    """One of `free_ports`."""
    (port,) = free_ports(1)
    return port


def launch(command: list[str], log: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a process whose output goes to a file."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}
        )


class Switched:
    """A process that a story may kill where it stands, and start anew.

    Attributes:
        command: What it is started by.
        log: Where all that it says goes.
    """

    def __init__(self, command: list[str], log: Path) -> None:
        self.log = log
        self.command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process that runs now, or ran last."""
        assert self._process is not None
        return self._process

    def on(self) -> None:
        """Start it."""
        self._process = launch(self.command, self.log)

    def off(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        """SIGSTOP: it answers nobody, and refuses nobody either."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.on()
        return self

    def __exit__(self, *_: object) -> None:
        end(self.process)


def end(process: subprocess.Popen[bytes], seconds: float = 20) -> None:
    """Ask a process to end, and make it end where it does not."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block."""
    process = launch(command, log)
    try:
        yield process
    finally:
        end(process)


class Pollable(Protocol):
    """A process that may have ended."""

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""


def wait_for(
    so: object, what: str, process: Pollable | None = None, log: Path | None = None, seconds: float = PATIENCE
) -> None:
    """Wait until `so()` is true; say what was waited for, and the end of the log, where it does not become so."""
    assert callable(so)
    end_at = time.monotonic() + seconds
    while not so():
        code = None if process is None else process.poll()
        if code is not None or time.monotonic() > end_at:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:]) if log and log.exists() else ""
            verb = f"process ended with {code}" if code is not None else f"{seconds:.0f} s passed"
            raise AssertionError(f"waited for {what}, but {verb}\n{tail}")
        time.sleep(0.05)
