"""Where the webhooks' certificate comes from: files that somebody mounts, or one of the operator's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from tutti.api.configuration import Webhook
from tutti.controller.supervisor import first_of
from tutti.kube.client import Client

# How long a start waits for a certificate that the API server trusts.
_PATIENCE_SECONDS = 10.0


@asynccontextmanager
async def own_certificate(webhook: Webhook, client: Client, stop: asyncio.Event) -> AsyncIterator[Path | None]:
    """Keep a certificate for the webhooks inside the block, and yield its file; None where it is not ours to make.

    Nothing waits for it for long: without one that is trusted, writes of our kinds are refused, and all else goes on.
    What ends the keeping sets `stop`, and is raised at the end of the block.
    """
    if not webhook.enabled or webhook.self_signed is None:
        yield None
        return
    # Needs a package that nothing else in the operator does, and that takes its time to load.
    from tutti.controller.self_signing import SelfSigning  # noqa: PLC0415

    with TemporaryDirectory() as folder:
        signing, ready = SelfSigning(client, webhook.self_signed, Path(folder)), asyncio.Event()
        keeping = asyncio.create_task(signing.run(ready), name="certificate")
        keeping.add_done_callback(lambda _: stop.set())
        try:
            with suppress(TimeoutError):  # what is wrong has been logged
                await asyncio.wait_for(first_of(ready, stop), _PATIENCE_SECONDS)
            if not ready.is_set():
                signing.stand_in()
            yield signing.file
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})
        if not keeping.cancelled():
            keeping.result()
