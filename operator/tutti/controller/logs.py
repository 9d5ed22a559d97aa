"""One stream of log lines for everything in the process.

Our own lines are structlog events; kopf and aiohttp log through the standard library. Both end in the same
renderer, so that a line is JSON for machines or colours for people whoever wrote it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor

from tutti.api.messages import escape_controls
from tutti.engine.records.decisions import AnyDecision

log = structlog.get_logger(__name__)

LogFormat = Literal["json", "console"]

# What the libraries say at these levels repeats what we log ourselves, per request or per object.
_QUIETER = (("aiohttp.access", logging.WARNING), ("asyncio", logging.WARNING), ("kopf", logging.WARNING))


# Fields of decisions of which only the length is told: whole pods, and the names of all nodes.
_COUNTED = ("stand_in", "nodes")

# kopf logs every refused write as an error of the handler that refused it. To refuse is that handler's work.
_REFUSAL = "Webhook "


# How kopf says that a request has failed and is repeated (kopf._cogs.clients.api, `request`).
_ATTEMPT = re.compile(
    r"Request attempt #(?P<number>\d+)(/\d+)? failed; will retry: (?P<what>\S+ [^?\s]+)\S* -> (?P<error>\w+).*",
    re.DOTALL,
)

_LONGEST_LINE = 32_768
"""Bytes of a line from which on its parts are cut: an error may quote a whole object that a user wrote."""
_LONGEST_TEXT, _MOST_ENTRIES = 2_000, 50
"""Characters of a text, and entries of a list or mapping, that are left of it then."""

# What is added to each line, whatever it says.
_COMMON: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)

# Where in the code, and not with which values: among those may be a token.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def _is_no_refusal(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_REFUSAL)


class _Outages(logging.Filter):
    """Has kopf tell of an outage in one warning for each of its streams, where it logs every attempt as an error.

    It shows the whole key of the connection; what exactly fails, our own informers tell of the same server.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten what is told of the first attempt, and drop that of those which follow."""
        found = _ATTEMPT.fullmatch(record.getMessage()) if record.name.startswith("kopf.") else None
        if found is None:
            return True
        if found["number"] != "1" and not details_are_told():
            return False
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args = "%s failed, and is tried again: %s", (found["what"], found["error"])
        return True


def tell_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what the loop could not hand to anybody.

    Where TLS ends in the middle of its handshake, or data is still read after that, uvloop 0.23 writes to the
    transport that it has closed itself, and reports that as fatal: nobody waits for that connection any longer. One
    whose opening was given up does not say that it is closing: there its error tells.
    """
    transport, error = context.get("transport"), context.get("exception")
    # Not by its class: uvloop's has no base of asyncio's.
    if (
        isinstance(error, RuntimeError)
        and transport is not None
        and (transport.is_closing() or str(error).endswith("the handler is closed"))
    ):
        log.debug("closed_transport_written_to", error=str(error))
        return
    loop.default_exception_handler(context)


def details_are_told() -> bool:
    """Return whether lines of level debug are written: to have one left out costs ten times as much as this."""
    return logging.getLogger().isEnabledFor(logging.DEBUG)


def tell_together(told: Iterable[EventDict], *, level: str = "info") -> None:
    """Log lines of one level at one moment: each is what it would be by itself, and all are written at once.

    There may be thousands in a second, and most of what a line costs is to be written, and to learn what all of them
    are told with: the moment, and what is bound to the context.

    Args:
        told: The fields of each line, `event` among them.
        level: That of all of them.
    """
    if not log.bind().is_enabled_for(logging.getLevelNamesMapping()[level.upper()]):
        return
    processors, logger = structlog.get_config()["processors"], structlog.get_config()["logger_factory"]()
    common: Any = {}
    for processor in processors:
        if processor in _COMMON:
            common = processor(logger, level, common)
    own, lines = [one for one in processors if one not in _COMMON], [{**one, **common} for one in told]
    written = _in_json(lines) if own == _IN_JSON else None
    if written is None:
        written = "\n".join(_one_by_one(own, logger, level, lines))
    if written:
        getattr(logger, level)(written)


def _one_by_one(processors: Sequence[Processor], logger: Any, level: str, lines: Iterable[EventDict]) -> Iterator[str]:
    """Yield lines as these processors write them, without those that one of them drops."""
    for line in lines:
        written: Any = line
        try:
            for processor in processors:
                written = processor(logger, level, written)
        except structlog.DropEvent:
            continue
        yield written


def _in_json(lines: Sequence[EventDict]) -> str | None:
    """Write lines as `_json` writes each, in one call; None where that takes one by itself, to cut it for example.

    None of them has a traceback.
    """
    try:
        written = _LINES.encode_lines(lines)
    except (msgspec.MsgspecError, UnicodeEncodeError, TypeError, RecursionError):
        return None
    if not written.isascii():
        return None
    if len(written) > _LONGEST_LINE and max(map(len, written.split(b"\n"))) > _LONGEST_LINE:
        return None
    return written[:-1].decode()


def tell_decisions(decisions: Iterable[AnyDecision]) -> None:
    """Log every decision at level debug, each with its fields; nothing is worked out where that level is off."""
    if not details_are_told():
        return
    say = log.bind()  # once, because the lazy logger binds anew for each line
    for decision in decisions:
        fields = msgspec.to_builtins(decision)
        for long in _COUNTED:
            if long in fields:
                fields[long] = len(fields[long])
        say.debug("decided", **fields)


def _renderers(log_format: LogFormat, *, colors: bool) -> list[Processor]:
    if log_format == "json":
        return list(_IN_JSON)
    return [
        _show_controls,
        structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback),
    ]


def _json(event: EventDict, **_: object) -> str:
    """Write a line; a value that JSON does not know as people would be shown it.

    There may be a line for each of thousands of pods in a second, and this takes a tenth of the standard library's
    time. What it refuses, half a surrogate pair or a key that is no text, is left to that, and so is what is beyond
    ASCII: there are characters that order a terminal about among it, which only that library escapes.
    """
    line = _encoded(event)
    return line if len(line) <= _LONGEST_LINE else _encoded(_cut(event))


def _encoded(event: Any) -> str:
    try:
        line = msgspec.json.encode(event, enc_hook=repr)
        if line.isascii():
            return line.decode()
    except (msgspec.MsgspecError, UnicodeEncodeError, TypeError, RecursionError):
        pass  # the other library knows what to do
    return json.dumps(event, default=repr, separators=(",", ":"))


def _cut(told: Any) -> Any:
    """Return what is told with long texts, lists and mappings cut."""
    match told:
        case str() if len(told) > _LONGEST_TEXT:
            return f"{told[:_LONGEST_TEXT]}... ({len(told)} characters)"
        case dict():
            return {key: _cut(value) for key, value in list(told.items())[:_MOST_ENTRIES]}
        case list() | tuple():
            return [_cut(one) for one in told[:_MOST_ENTRIES]]
        case _:
            return told


def _show_controls(_: object, __: str, event: EventDict) -> EventDict:
    """Have what users have written obey no terminal, and begin no line of its own."""
    return {
        key: escape_controls(value).replace("\n", "\\n") if isinstance(value, str) else value
        for key, value in event.items()
    }


_LINES: Final = msgspec.json.Encoder(enc_hook=repr)
_IN_JSON: Final[list[Processor]] = [_TRACEBACKS, structlog.processors.JSONRenderer(serializer=_json)]


def configure(log_format: LogFormat, *, level: str = "info", stream: TextIO | None = None) -> None:
    """Route every log line of the process to `stream` (stderr unless given) in one format.

    Args:
        log_format: `json`, one object per line, or `console`, for a person at a terminal.
        level: the lowest level that is written, for our own lines and for those of libraries.
        stream: where lines go.
    """
    out = stream or sys.stderr
    threshold = logging.getLevelNamesMapping()[level.upper()]
    renderers = _renderers(log_format, colors=out.isatty())
    structlog.configure(
        processors=[*_COMMON, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_COMMON, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    handler.addFilter(_Outages())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)
    for name, quiet in _QUIETER:
        logging.getLogger(name).setLevel(max(threshold, quiet) if threshold > logging.DEBUG else threshold)
    logging.getLogger("kopf.objects").addFilter(_is_no_refusal)
