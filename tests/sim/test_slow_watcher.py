"""A watcher that reads no more is cut off, and costs nothing from then on."""

import asyncio

from tutti_sim.http import watches


async def test_a_client_that_does_not_read_its_watch_is_cut_off(cluster, api, monkeypatch):
    monkeypatch.setattr(watches, "BACKLOG", 20)
    monkeypatch.setattr(watches, "DRAIN_SECONDS", 0.0)
    host, port = cluster.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1)
    path = "/api/v1/namespaces/default/configmaps?watch=true"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {cluster.token}\r\n\r\n".encode())
    assert (await reader.read(15)).startswith(b"HTTP/1.1 200")

    gone = asyncio.create_task(writer.wait_closed())
    for index in range(80):
        body = {"metadata": {"name": f"m-{index}"}, "data": {"fill": "x" * 400_000}}
        await api.create("/api/v1/namespaces/default/configmaps", body)

    writer.transport.resume_reading()
    try:
        while await reader.read(1 << 20):
            pass
    except ConnectionError:
        pass
    writer.close()
    await asyncio.wait([gone])
    collection = cluster.backend.store.collection("configmaps")
    assert not [one for one in collection._subscriptions if one.overflow]
