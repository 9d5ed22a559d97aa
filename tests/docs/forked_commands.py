"""A `tutti` for the shells of pages that need not load what it is made of each time: it is forked off a process that has.

Loading takes one to two seconds of a core, and pages call the command two hundred times. Who calls it is a process as
the command itself would be: it has its arguments, folder, environment and channels, is sent its signals, and ends as it
ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import socketserver
import struct
import sys
import threading
from collections.abc import Iterator
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path

from e2e.harness.replica import FORKS

_LENGTH = struct.Struct("!I")
_CODE = struct.Struct("!i")
_CHANNELS = 3
_FAILED = 125
"""How it ends where nobody forks."""
_CALLED = f"""#!{sys.executable} -IS
import json, os, signal, socket, sys

asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX) as forking:
    forking.connect(os.path.join(os.path.dirname(sys.argv[0]), "forking"))
    socket.send_fds(forking, [len(asked).to_bytes({_LENGTH.size})], [0, 1, 2])
    forking.sendall(asked)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):  # what is sent earlier would be read as what is asked
        signal.signal(number, lambda number, _: forking.send(bytes([number])))
    said = forking.recv({_CODE.size})
code = int.from_bytes(said, signed=True) if said else {_FAILED}
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
"""What is called: it asks for a fork, hands signals on, and ends as the fork does."""


@contextlib.contextmanager
def forked_commands(folder: Path) -> Iterator[Path]:
    """Put a `tutti` into a folder, which forks as long as the block lasts; the folder is for the path of a shell."""
    called = folder / "tutti"
    called.write_text(_CALLED, encoding="utf-8")
    called.chmod(0o755)
    with _Forking(str(folder / "forking"), _Call) as forking:
        serving = threading.Thread(target=forking.serve_forever)
        serving.start()
        try:
            yield folder
        finally:  # else the process that serves would not end
            forking.shutdown()
            serving.join()


class _Forking(socketserver.ThreadingUnixStreamServer):
    """Who forks for those that call; what one thread learns of the end of a fork, no other takes from it."""

    daemon_threads = True  # it ends though a fork does not
    learning = threading.Lock()


class _Call(socketserver.BaseRequestHandler):
    """One command, from the call to its end."""

    def handle(self) -> None:
        caller: socket.socket = self.request
        head, channels, *_ = socket.recv_fds(caller, _LENGTH.size, _CHANNELS)
        asked = caller.recv(_LENGTH.unpack(head)[0], socket.MSG_WAITALL)
        ends = tuple(map(Connection, channels))
        process = FORKS.Process(target=_command, args=(asked, ends), daemon=True)
        with _Forking.learning:
            process.start()
        for one in ends:
            one.close()
        while process.sentinel not in (ready := connection.wait([process.sentinel, caller.fileno()])):
            assert ready
            assert process.pid is not None
            signals = caller.recv(_CHANNELS)
            if not signals:  # whoever called was killed
                process.kill()
                connection.wait([process.sentinel])
                break
            for number in signals:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, number)
        with _Forking.learning:
            process.join()
        with contextlib.suppress(OSError):
            caller.sendall(_CODE.pack(_FAILED if process.exitcode is None else process.exitcode))


def _command(asked: bytes, channels: tuple[Connection, ...]) -> None:
    """Be the command that was called."""
    from tutti.cli.main import main  # loaded where it is forked

    for number, one in enumerate(channels):
        os.dup2(one.fileno(), number)
        one.close()
    arguments, folder, environment = json.loads(asked)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - multiprocessing has put nothing in its place
    sys.argv[:] = ["tutti", *arguments]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
