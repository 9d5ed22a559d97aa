"""A list of everything, once: pages of one snapshot, or all in one piece where that does not last."""

from __future__ import annotations

import msgspec
import pytest

from tests.kube.consumer import World, informing
from tutti.kube.decoding import read_meta
from tutti.kube.errors import ApiError
from tutti.kube.fetching import FIRST_PAGE, PAGE_BYTES, ListMeta, ListPage, ListScope, fetch_all, next_limit

PODS = ListScope("/api/v1/pods")


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


@pytest.mark.parametrize(
    ("limit", "count", "size", "expected"),
    [
        (100, 100, 100 * 1_000, 2_000),  # small objects: as many as may be
        (100, 100, 100 * 8_192, 1_024),
        (100, 100, 100 * 1_500_000, 5),
        (5, 5, 5 * 9_000_000, 1),
        (1, 1, 50_000_000, 1),
        (100, 0, 200, 2_000),
        (0, 10, 10, 0),  # all in one piece
    ],
)
def test_a_page_has_as_many_objects_as_the_last_one_lets_expect_to_be_small_enough(limit, count, size, expected):
    page = ListPage(ListMeta(), [msgspec.Raw(b"{}")] * count, size)
    assert next_limit(limit, page, most=2_000) == expected
    assert expected <= 1 or expected == 2_000 or expected * size // count <= PAGE_BYTES


def limits(server) -> list[str]:
    return [call.query["limit"] for call in server.calls if "limit" in call.query]


async def test_pages_of_large_objects_are_short(serve, kube):
    collection = kube.Collection()
    for index in range(FIRST_PAGE + 40):
        collection.put(f"p{index}", value=1, junk="x" * 200_000)
    server, world = await serve(collection.handle), World()
    async with informing(server, world, streams=False) as informer:
        await informer.synced.wait()
    assert len(world.things) == FIRST_PAGE + 40
    first, second = limits(server)
    assert first == str(FIRST_PAGE)
    assert int(second) * 200_000 <= PAGE_BYTES < (int(second) + 2) * 200_000


async def test_pages_are_shorter_after_one_did_not_come(serve, kube):
    collection = kube.Collection()
    collection.put("a", value=1)
    collection.faults.extend([("list", "<html>not a list</html>")] * 6)
    server, world = await serve(collection.handle), World()
    async with informing(server, world, streams=False, page_size=40) as informer:
        await informer.synced.wait()
    assert world.values() == {"a": 1}
    asked = [int(limit) for limit in limits(server)]
    assert asked[0] == 40
    assert asked == sorted(asked, reverse=True)
    assert asked[-1] < 40
