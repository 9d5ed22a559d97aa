"""What an object has made the engine raise, in words that are the same in every run, for the log and for people."""

from __future__ import annotations

import re

from tutti.api.messages import shortened
from tutti.engine.records.decisions import NoteFault

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


def said(error: Exception) -> str:
    """What was raised, in one line that is the same in every run."""
    text = _ADDRESS.sub("0x...", " ".join(str(error).split()))
    return shortened(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def fault_of(key: tuple[str, str, str], error: Exception, during: str) -> NoteFault:
    """Return what has a fault logged and counted; `key` is the kind, namespace and name of whose it is."""
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    line = "" if where is None else f"{where.tb_frame.f_globals.get('__name__', '')}:{where.tb_lineno}"
    return NoteFault(*key, during, said(error), line)
