"""Has the engine told what nodes use, again and again, where a profile goes by that.

What cannot be read changes nothing: figures grow old, and once they are too old nobody has an opinion. The log says so
when it begins and when it is over, and a metric counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp
import structlog

from tutti.api.configuration import TuttiConfiguration
from tutti.api.load import Measurements
from tutti.controller.metrics import Metrics
from tutti.controller.supervision import note_failure
from tutti.engine.records.measurements import Measured
from tutti.engine.records.observations import AnyObservation
from tutti.kube.client import Client
from tutti.kube.errors import WireError
from tutti.kube.node_metrics import MeasuringError, read_metrics_server, read_prometheus

log = structlog.get_logger(__name__)


class NodeMeasuring:
    """Reads what nodes use from where the configuration says.

    Args:
        client: The way to the API server.
        configuration: Without `load` in any profile nothing is read.
        observe: Told of what was measured.
        metrics: Counts readings.
        clock: The time of day, in Unix seconds.
    """

    def __init__(
        self,
        client: Client,
        configuration: TuttiConfiguration,
        *,
        observe: Callable[[AnyObservation], None],
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._settings = configuration.measured
        self._observe = observe
        self._metrics = metrics
        self._clock = clock
        self._failing = ""

    async def run(self) -> None:
        """Read until cancelled, at once and then every so many seconds; returns where nothing is to be read."""
        if self._settings is None:
            return
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    await self._read(session, self._settings)
                except Exception as error:  # noqa: BLE001 - a bulkhead: whoever measures must not end what schedules
                    note_failure("measuring", error, self._metrics)
                await asyncio.sleep(self._settings.interval_seconds)

    async def _read(self, session: aiohttp.ClientSession, settings: Measurements) -> None:
        try:
            found = await read_figures(self._client, session, settings, self._clock())
        except (WireError, MeasuringError) as error:
            self._metrics.measurements.labels("failed").inc()
            if str(error) != self._failing:
                log.warning("nodes_not_measured", source=settings.source, error=str(error))
            self._failing = str(error)
            return
        self._metrics.measurements.labels("read").inc()
        self._metrics.measured_nodes.set(len(found.nodes))
        if self._failing:
            log.info("nodes_measured_again", source=settings.source, nodes=len(found.nodes))
        self._failing = ""
        self._observe(found)


async def read_figures(client: Client, session: aiohttp.ClientSession, settings: Measurements, now: float) -> Measured:
    """Return what nodes use now, from where the configuration says.

    Raises:
        WireError: The API server does not answer.
        MeasuringError: Who measures does not, or not as it should.
    """
    if settings.address is None:
        return await read_metrics_server(client, now)
    return await read_prometheus(session, settings.address, settings.asked, settings.node_label, now)
