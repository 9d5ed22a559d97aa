"""A list of everything, once: pages of one snapshot, or all in one piece where that does not last."""

from __future__ import annotations

import pytest

from tutti.kube.errors import ApiError
from tutti.kube.listing import Scope, fetch_all
from tutti.kube.watching import read_meta

PODS = Scope("/api/v1/pods")


async def names(client, page_size: int = 2) -> list[str]:
    return [read_meta(raw).name for raw in await fetch_all(client, PODS, page_size=page_size)]


@pytest.mark.parametrize("count", [0, 1, 2, 5])
async def test_all_pages_are_one_list(serve, kube, count: int):
    collection = kube.Collection()
    for index in range(count):
        collection.put(f"p{index}")
    server = await serve(collection.handle)

    assert await names(server.client) == [f"p{index}" for index in range(count)]
    assert len(server.calls) == max(1, -(-count // 2))


async def test_a_snapshot_that_does_not_last_is_asked_for_in_one_piece(serve, kube):
    collection = kube.Collection()
    for index in range(5):
        collection.put(f"p{index}")
    collection.faults.append(("continue", "410"))
    server = await serve(collection.handle)

    assert await names(server.client) == [f"p{index}" for index in range(5)]
    assert [call.query.get("limit") for call in server.calls] == ["2", "2", None]


@pytest.mark.parametrize("where", ["list", "continue"])
async def test_a_refusal_is_not_hidden(serve, kube, where: str):
    collection = kube.Collection()
    for index in range(3):
        collection.put(f"p{index}")
    collection.faults.append((where, "403"))
    server = await serve(collection.handle)

    with pytest.raises(ApiError, match="told to answer 403"):
        await names(server.client)
