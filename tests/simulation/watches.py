"""Open watches of a simulated cluster: what is sent on them, and when it arrives, or that nothing does any more."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.simulation.network import Network, Sent, Watch
from tutti.kube.errors import ApiError, WireError
from tutti_sim.http import lists, request
from tutti_sim.http.rendering import PLAIN
from tutti_sim.http.watches import INITIAL_END, Writer, error_line
from tutti_sim.meta.errors import expired
from tutti_sim.store.collection import Compacted, Feed

BACKLOG = 10_000
MARK_SECONDS = 10.0
"""How often a watch that tells nothing else tells how far it has come; a server does that once a minute."""
_MOMENT = 1e-6


async def pump(network: Network, sent: Sent, watch: Watch) -> None:
    """Send changes as the server does, each after its time on the way; their order stays."""
    backend = network.server.backend
    target = request.target(sent.path.strip("/").split("/"))
    assert target is not None
    resource = backend.resource(target.group, target.version, target.plural)
    where = lists.scope(resource, target.namespace, "", sent.query)
    collection = backend.collection(resource)
    initial = "sendInitialEvents" in sent.query
    if initial and not network.server.streams_lists:
        _send(network, watch, ApiError.parse(422, b""))
        return
    after = backend.store.revision if initial else int(sent.query.get("resourceVersion") or 0)
    try:
        feed = collection.subscribe(namespace=where.namespace, predicate=where.predicate, after=after, limit=BACKLOG)
    except Compacted as error:
        _send(network, watch, error_line(expired(str(error))), None)
        return
    writer = Writer(resource, PLAIN, "Metadata")
    if initial:
        found = [one for one in collection.scan(where.namespace) if where.predicate is None or where.predicate(one.obj)]
        lines = [writer.line("ADDED", one) for one in found]
        _send(network, watch, *lines, writer.bookmark(after, INITIAL_END))
    try:
        seconds = float(sent.query["timeoutSeconds"])
        await _follow(network, watch, feed, writer, until=asyncio.get_running_loop().time() + seconds)
    finally:
        collection.unsubscribe(feed)


async def _follow(network: Network, watch: Watch, feed: Feed, writer: Writer, *, until: float) -> None:
    """Send what happens until then, or as much of it as a watch tells that falls silent."""
    told, clock = feed.after, asyncio.get_running_loop().time
    while not feed.closed and clock() < until and not watch.silent:
        with suppress(TimeoutError):  # there is nothing to tell then but how far it has come
            async with asyncio.timeout_at(until):
                await feed.wait()
        if watch.silent:
            break
        for notice in feed.take():
            line = writer.line(str(notice.change), notice.version)
            _send(network, watch, *([line] * (2 if watch.what in network.doubled else 1)))
        told = feed.seen
    while watch.marks and clock() < until:
        _send(network, watch, writer.bookmark(told))
        await asyncio.sleep(min(MARK_SECONDS, until - clock()))
    if not watch.silent or watch.marks:
        _send(network, watch, writer.bookmark(told), None)


def _send(network: Network, watch: Watch, *lines: bytes | WireError | None) -> None:
    """Have lines arrive after their time on the way, and after those before them."""
    loop = asyncio.get_running_loop()
    arrives = loop.time() + network.latency() + network.lag(watch.owner, watch.what)
    watch.last = max(watch.last + _MOMENT, arrives)
    loop.call_at(watch.last, watch.deliver, *lines)
