"""Reads what nodes use: from metrics.k8s.io (metrics-server or an adapter), or from Prometheus by queries.

Formats: metrics.k8s.io/v1beta1 NodeMetrics; Prometheus HTTP API v1, instant queries (a vector of samples). Whoever
answers may be wrong: what is no number, or of a node that names itself strangely, is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import aiohttp
import msgspec

from tutti.api.quantity import QuantityError, parse_quantity
from tutti.engine.records.measurements import Measured, NodeFigures
from tutti.kube.client import Client

PATH: Final = "/apis/metrics.k8s.io/v1beta1/nodes"
MOST_BYTES: Final = 64 << 20
"""How long an answer of Prometheus may be."""

_SECONDS: Final = 20
_DECIMALS: Final = 2


class MeasuringError(Exception):
    """Figures could not be read; says from where, and what is wrong."""


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class _Usage(msgspec.Struct, frozen=True):
    cpu: str | int | float = ""
    memory: str | int | float = ""


class _NodeMetrics(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    timestamp: str = ""
    usage: _Usage = _Usage()


class _NodeMetricsList(msgspec.Struct, frozen=True):
    items: list[_NodeMetrics] = []


class _Sample(msgspec.Struct, frozen=True):
    metric: dict[str, str] = {}
    value: tuple[float, str] = (0.0, "NaN")


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    status: str = ""
    data: _Data = _Data()
    error: str = ""


async def read_metrics_server(client: Client, now: float) -> Measured:
    """Return what metrics.k8s.io says of all nodes: cores and bytes in use.

    Raises:
        WireError: The API server does not answer, or does not serve it.
        MeasuringError: It answers something else.
    """
    body = await client.request("GET", PATH)
    try:
        found = msgspec.json.decode(body, type=_NodeMetricsList)
    except msgspec.MsgspecError as error:
        raise MeasuringError(f"metrics.k8s.io answers what is no list of node metrics: {error}") from error
    nodes = {
        one.metadata.name: NodeFigures(_time_of(one.timestamp, now), [_milli(one.usage.cpu), _bytes(one.usage.memory)])
        for one in found.items
        if one.metadata.name
    }
    return Measured(["cpu-used", "memory-used"], nodes)


async def read_prometheus(
    session: aiohttp.ClientSession, address: str, queries: Mapping[str, str], node_label: str, now: float
) -> Measured:
    """Return what Prometheus says of all nodes, by metric.

    Raises:
        MeasuringError: It does not answer, or not to one of the queries.
    """
    metrics = list(queries)
    values: dict[str, list[float | None]] = {}
    times: dict[str, float] = {}
    for number, (metric, query) in enumerate(queries.items()):
        for sample in await _query(session, address, metric, query):
            name = sample.metric.get(node_label, "").partition(":")[0]
            value = _number(sample.value[1])
            if name and value is not None:
                values.setdefault(name, [None] * len(metrics))[number] = value
                times[name] = min(times.get(name, now), sample.value[0])
    return Measured(metrics, {name: NodeFigures(times[name], found) for name, found in values.items()})


async def _query(session: aiohttp.ClientSession, address: str, metric: str, query: str) -> list[_Sample]:
    where = f"Prometheus at {address}, asked for {metric}"
    try:
        async with session.get(
            f"{address.rstrip('/')}/api/v1/query",
            params={"query": query},
            timeout=aiohttp.ClientTimeout(total=_SECONDS),
            allow_redirects=False,  # the configuration says who is asked, not who answers
        ) as answer:
            status, body = answer.status, b""
            async for chunk in answer.content.iter_chunked(1 << 18):
                body += chunk
                if len(body) > MOST_BYTES:
                    raise MeasuringError(f"{where}: the answer is longer than {MOST_BYTES >> 20} MiB")
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:  # ValueError: no name of a host
        raise MeasuringError(f"{where}: {str(error) or type(error).__name__}") from error
    try:
        said = msgspec.json.decode(body, type=_Answer)
        if said.status != "success":
            raise MeasuringError(f"{where}: {said.error or f'it answers {status}'}")
        if said.data.result_type != "vector":
            raise MeasuringError(f"{where}: the query gives a {said.data.result_type}, and must give a vector")
        return msgspec.json.decode(said.data.result, type=list[_Sample])
    except msgspec.MsgspecError as error:
        raise MeasuringError(f"{where}: it answers {status} and what is no result of a query ({error})") from error


def _time_of(text: str, now: float) -> float:
    """Return when something was measured, Unix seconds; now where that cannot be read, or lies ahead."""
    try:
        return min(now, datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        return now


def _milli(quantity: str | float) -> float | None:
    """Return thousandths of a quantity; None where it is none."""
    try:
        return float(parse_quantity(quantity))
    except QuantityError:
        return None


def _bytes(quantity: str | float) -> float | None:
    milli = _milli(quantity)
    return None if milli is None else round(milli / 1000)


def _number(value: str | float) -> float | None:
    """Return a finite number, rounded so that journals stay small; None where it is none."""
    try:
        number = float(value)
    except ValueError:
        return None
    return round(number, _DECIMALS) if math.isfinite(number) else None
