"""An operator as a process: how it is started, what it says, and which binds it has decided."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from e2e.harness.processes import PATIENCE

if TYPE_CHECKING:
    from e2e.harness.story import Story

API = "scheduling.tutti.dev/v1alpha1"


FORKS = multiprocessing.get_context("forkserver")
# To load an operator takes two seconds of a core: it is loaded once, and each start is a fork of that process. So is
# what else pages call.
_OTHERS = [
    *("tutti_sim.command", "tutti_sim.cluster"),
    *("tutti.cli.views.explain.command", "tutti.cli.views.forecast.command"),
]
FORKS.set_forkserver_preload(["tutti.cli.start", "tutti.cli.main", "tutti.cli.run", *_OTHERS, __name__])


class OperatorProcess:
    """An operator that runs as a process of its own, from the same command as `python -m tutti run`.

    What it says goes into a pipe or a file, of which this is given the end to write to, and closes it.

    Attributes:
        sentinel: A file that can be read from when it has ended.
    """

    def __init__(self, command: Sequence[str], output: Connection) -> None:
        self._process = FORKS.Process(target=_operate, args=(tuple(command), output), daemon=True)
        with output:
            self._process.start()
        self.sentinel = self._process.sentinel

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        """Wait for its end; returns its exit code.

        Raises:
            TimeoutExpired: It has not ended in time.
        """
        self._process.join(seconds)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("tutti run", seconds or 0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal; to who has ended, none."""
        if self._process.is_alive():
            os.kill(self.pid, number)

    def stop(self) -> int:
        """Ask it to end; returns its exit code.

        Raises:
            TimeoutExpired: It has not ended in time, and has been killed.
        """
        self.send_signal(signal.SIGTERM)
        self.send_signal(signal.SIGCONT)  # a story may have failed while it stood still
        try:
            return self.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            self.wait()
            raise

    def kill(self) -> None:
        """Kill -9."""
        self.send_signal(signal.SIGKILL)


def _operate(command: tuple[str, ...], output: Connection) -> None:
    """Be that operator: what a fork shares with its parent and a process of its own would not is its output."""
    from tutti.cli.main import main  # noqa: PLC0415 - loaded where it is forked, and not by whoever tells a story

    with output:
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
    sys.argv[1:] = command
    main()


def launched(kubeconfig: Path, folder: Path, configuration: dict[str, Any], *more: str) -> OperatorProcess:
    """Start an operator as a user would, with more options; its log and journal go on in the folder."""
    document = {
        "apiVersion": API,
        "kind": "TuttiConfiguration",
        "leaderElection": {"leaseDurationSeconds": 8, "renewDeadlineSeconds": 6, "retryPeriodSeconds": 1},
        "metrics": {"bindAddress": "127.0.0.1:0"},
        **configuration,
    }
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(document))
    command = ["run", "--kubeconfig", str(kubeconfig), "--config", str(file), "--journal", str(folder / "journal")]
    log = os.open(folder / "operator.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    return OperatorProcess([*command, *more], Connection(log, readable=False))


def binds(journal: Path) -> Iterator[tuple[str, str, str]]:
    """Every bind that a journal records: pod, uid and node."""
    for decision in decisions(journal, "bind"):
        yield decision["name"], decision["uid"], decision["node"]


def decisions(journal: Path, do: str) -> Iterator[dict[str, Any]]:
    """Every decision of one kind that a journal records."""
    for line in journal.read_bytes().splitlines():
        with contextlib.suppress(msgspec.DecodeError):  # a last line that kill -9 cut off
            entry = msgspec.json.decode(line)
            yield from (decision for decision in entry.get("decisions", ()) if decision["do"] == do)


class Replica:
    """One of several operators of a story."""

    def __init__(self, process: OperatorProcess, folder: Path) -> None:
        self._process, self._folder = process, folder

    def said(self, event: str) -> bool:
        """Whether a line of its log is about this event."""
        return any(line.get("event") == event for line in self.lines())

    def lines(self) -> list[dict[str, Any]]:
        """Its log so far."""
        lines = (self._folder / "operator.log").read_bytes().splitlines()
        # The last may be half written.
        return [msgspec.json.decode(line) for line in lines if line.startswith(b"{") and line.endswith(b"}")]

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def freeze(self) -> None:
        """SIGSTOP: nothing of it runs, as on a machine that hangs."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def wait(self, seconds: float) -> int:
        """Wait for its end; returns its exit code."""
        return self._process.wait(seconds)

    def kill(self) -> None:
        """Kill -9: nothing is said, nothing is released."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Ask it to end; returns its exit code."""
        return self._process.stop()

    def bound(self) -> set[str]:
        """The uids of the pods that it has decided to bind."""
        return {uid for _, uid, _ in binds(self._folder / "journal")}

    def decided(self) -> dict[str, str]:
        """The pods that it has decided to bind, and to which node last."""
        return {pod: node for pod, _, node in binds(self._folder / "journal")}


@contextlib.contextmanager
def replica(story: Story, name: str, *options: str, **configuration: Any) -> Iterator[Replica]:
    """Run one more operator beside others, until the block ends; `options` are those of the command."""
    folder = story.folder / name
    folder.mkdir()
    (folder / "operator.log").touch()  # a forked operator opens it in its own time
    process = launched(story.kubeconfig, folder, configuration, *options)
    running = Replica(process, folder)
    try:
        yield running
    finally:
        running.stop()
