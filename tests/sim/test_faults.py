"""Each kind of fault, as a client of the embedded cluster meets it."""

import asyncio
import json
from datetime import UTC, datetime

import aiohttp
import pytest

from tests.sim.conftest import Client
from tutti_sim.cluster import EmbeddedCluster
from tutti_sim.faults.rules import Faults, Refusal, Restart, Rule, WatchFault

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
FAULTS = "/_tutti/faults"
ON_MAPS = {"resources": ["configmaps"]}


@pytest.fixture
async def cluster():
    async with EmbeddedCluster(nodes=1, seed=1, stale=True) as made:
        yield made


@pytest.fixture
def faults(api):
    """A function that puts rules about config maps in force, in place of those before."""

    async def put(*rules, seed=1, **more):
        document = {"seed": seed, "rules": [{"match": ON_MAPS, **rule} for rule in rules], **more}
        await api.call("PUT", FAULTS, document)

    return put


def config_map(name):
    return {"metadata": {"name": name}}


async def exists(api, name):
    listed = await api.get("/api/v1/configmaps", fieldSelector=f"metadata.name={name}")
    return bool(listed["items"])


async def test_rules_are_given_shown_and_taken_back(api):
    rule = {"name": "slow", "latency": "0.001", "match": ON_MAPS}
    assert (await api.call("PUT", FAULTS, {"seed": 7, "rules": [rule]}))["seed"] == 7
    await api.call("PUT", f"{FAULTS}/rules/second", {"name": "second", "reset": "after", "rate": 0})
    await api.get(MAPS)

    assert [one["name"] for one in (await api.get(FAULTS))["rules"]] == ["slow", "second"]
    assert await api.get(f"{FAULTS}/rules/slow") == rule
    assert (await api.get(f"{FAULTS}/counts"))["slow"] == {"seen": 1, "struck": 1}
    await api.call("DELETE", f"{FAULTS}/rules/slow")
    await api.call("GET", f"{FAULTS}/rules/slow", status=404)
    assert await api.call("DELETE", FAULTS) == {}


async def test_rules_are_the_administrators(cluster):
    async with aiohttp.ClientSession() as session:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            async with session.get(cluster.url + FAULTS, headers=headers) as answer:
                assert answer.status == 401


async def test_a_rule_that_makes_no_sense_is_refused_with_what_would_be_right(api):
    refused = await api.call("PUT", FAULTS, {"rules": [{"name": "r", "reset": "during"}]}, status=422)
    assert refused["message"] == "faults: rules[0].reset: must be 'before' or 'after', not 'during'"
    await api.call("PUT", f"{FAULTS}/rules/a", {"name": "b", "reset": "after"}, status=422)
    await api.call("POST", FAULTS, {}, status=405)
    await api.call("GET", "/_tutti/nothing", status=404)

    assert await api.get(FAULTS) == {}


async def test_a_slow_request_waits_while_others_go_by(api, faults):
    await faults({"name": "slow", "latency": "0.2", "match": {"resources": ["configmaps"], "names": ["slow"]}})
    await api.create(MAPS, config_map("slow"))
    order = []

    async def ask(path, name):
        await api.get(path)
        order.append(name)

    await asyncio.gather(ask(f"{MAPS}/slow", "slow"), ask(PODS, "other"))

    assert order == ["other", "slow"]


@pytest.mark.parametrize("code", [409, 429, 500, 503])
async def test_a_refusal_leaves_no_trace(api, faults, code):
    await faults({"name": "no", "error": {"code": code, "retryAfterSeconds": 3}, "times": 1})

    async with api.session.post(api.url + MAPS, json=config_map("m")) as answer:
        body = await answer.json()

    assert answer.status == body["code"] == code
    assert answer.headers["Retry-After"] == "3"
    assert body["details"]["retryAfterSeconds"] == 3
    assert body["message"] == f"told to answer {code}"
    assert not await exists(api, "m")


async def test_a_late_refusal_comes_after_the_effect(api, faults):
    await faults({"name": "no", "error": {"code": 504, "after": True}, "match": {"verbs": ["create"]}})

    await api.call("POST", MAPS, config_map("m"), status=504)

    assert await exists(api, "m")


@pytest.mark.parametrize(("when", "done"), [("before", False), ("after", True)])
async def test_a_connection_breaks_before_or_after_the_effect(api, faults, when, done):
    await faults({"name": "cut", "reset": when, "match": {"verbs": ["create"]}})

    with pytest.raises(aiohttp.ClientError):
        await api.create(MAPS, config_map("m"))

    assert await exists(api, "m") is done


async def test_a_rate_strikes_the_same_requests_again_with_the_same_seed(api, faults):
    async def strikes():
        await faults(
            {"name": "some", "rate": 0.5, "error": {"code": 503}, "match": {"resources": ["configmaps"]}}, seed=5
        )
        found = []
        for _ in range(20):
            async with api.session.get(api.url + MAPS) as answer:
                found.append(answer.status)
        return found

    first = await strikes()

    assert set(first) == {200, 503}
    assert await strikes() == first


async def watched(api, *, count, opened=None, **query):
    """The names and types of so many events, and how the watch ended if it did before."""
    seen = []
    try:
        async with api.session.get(api.url + MAPS, params={"watch": "true", **query}) as answer:
            if opened is not None:
                opened.set()
            async for line in answer.content:
                event = json.loads(line)
                meta = event["object"]["metadata"]
                if meta.get("name") != "kube-root-ca.crt":
                    seen.append((event["type"], meta.get("name", meta["resourceVersion"])))
                if len(seen) == count:
                    return seen, "read"
    except aiohttp.ClientError:
        return seen, "broken"
    return seen, "ended"


async def open_watch(api, **query):
    """A watch in the background, as a task that ends as `watched` does; it is open already."""
    opened = asyncio.Event()
    task = asyncio.create_task(watched(api, opened=opened, **query))
    await opened.wait()
    return task


async def test_a_watch_is_dropped_after_some_events(api, faults):
    since = (await api.get(MAPS))["metadata"]["resourceVersion"]
    await faults({"name": "drop", "watch": {"dropAfterEvents": 2}, "times": 1})
    watch = await open_watch(api, count=9, resourceVersion=since)
    for name in "abc":
        await api.create(MAPS, config_map(name))

    seen, end = await watch

    assert (seen, end) == ([("ADDED", "a"), ("ADDED", "b")], "broken")
    again, _ = await watched(api, count=1, resourceVersion=(await api.get(f"{MAPS}/b"))["metadata"]["resourceVersion"])
    assert again == [("ADDED", "c")]


async def test_a_watch_is_dropped_after_some_time(api, faults):
    await faults({"name": "drop", "watch": {"dropAfterSeconds": 0.01}})

    assert (await watched(api, count=9, resourceVersion="0"))[1] == "broken"


async def test_a_stalled_watch_says_nothing_more_until_its_time_is_over(api, faults):
    since = (await api.get(MAPS))["metadata"]["resourceVersion"]
    await faults({"name": "stall", "watch": {"stallAfterEvents": 1}})
    query = {"resourceVersion": since, "timeoutSeconds": "1", "allowWatchBookmarks": "true"}
    watch = await open_watch(api, count=9, **query)
    for name in "abc":
        await api.create(MAPS, config_map(name))

    assert await watch == ([("ADDED", "a")], "ended")


async def test_events_come_twice_and_late_but_in_order(api, faults):
    since = (await api.get(MAPS))["metadata"]["resourceVersion"]
    await faults({"name": "odd", "watch": {"duplicate": 1, "delay": "0-0.05"}})
    watch = await open_watch(api, count=8, resourceVersion=since)
    for name in "abcd":
        await api.create(MAPS, config_map(name))

    seen, _ = await watch

    assert [name for _, name in seen] == list("aabbccdd")


async def test_a_bookmark_never_runs_ahead_of_events_that_are_held_back():
    from tutti_sim.faults.replica import FaultyFeed
    from tutti_sim.store.store import Store

    store = Store()
    collection = store.open("maps")
    subscription = collection.subscribe(namespace="", predicate=None, after=1, limit=10)
    feed = FaultyFeed(subscription, WatchFault(delay="1000"), "dice", lambda: None)
    assert feed.take() == []
    store.create(collection, {"metadata": {"name": "a"}})

    assert feed.take() == []
    assert feed.seen == 1
    assert subscription.seen == store.revision == 2


async def test_a_wrong_clock_shows_in_what_is_written(api, faults):
    await faults({"name": "ahead", "skewSeconds": 86400, "times": 1, "match": {"verbs": ["create"]}})

    ahead = await api.create(MAPS, config_map("ahead"))
    right = await api.create(MAPS, config_map("right"))

    times = [datetime.fromisoformat(one["metadata"]["creationTimestamp"]) for one in (ahead, right)]
    assert abs((times[0] - times[1]).total_seconds() - 86400) < 60
    assert abs((times[1] - datetime.now(UTC)).total_seconds()) < 60


@pytest.fixture
async def late(cluster):
    """A client of the listener whose reads lag behind."""
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {cluster.token}"}) as session:
        yield Client(session, cluster.stale_url)


async def test_without_lag_late_reads_are_right(api, late):
    await api.create(MAPS, config_map("a"))

    assert await late.get(f"{MAPS}/a") == await api.get(f"{MAPS}/a")
    assert (await late.get("/api/v1/nodes"))["items"] == (await api.get("/api/v1/nodes"))["items"]


async def test_late_reads_are_so_many_events_behind(api, late, faults):
    await faults(lag={"events": 2})
    for name in "abc":
        await api.create(MAPS, config_map(name))

    await late.get(f"{MAPS}/a")
    await late.call("GET", f"{MAPS}/b", status=404)
    listed = await late.get(MAPS)
    assert int(listed["metadata"]["resourceVersion"]) == int((await api.get(MAPS))["metadata"]["resourceVersion"]) - 2
    watch = asyncio.create_task(late.until(f"{MAPS}/c", lambda _: True))
    await faults(lag={"events": 0})
    assert (await watch)["metadata"]["name"] == "c"


async def test_late_reads_are_so_much_time_behind(api, late, faults):
    await faults(lag={"seconds": 0.2})
    await api.create(MAPS, config_map("a"))
    await late.call("GET", f"{MAPS}/a", status=404)

    await late.until(f"{MAPS}/a", lambda _: True)


async def test_what_is_written_to_the_late_listener_is_written_at_once(api, late, faults):
    await faults(lag={"seconds": 1000})

    await late.create(MAPS, config_map("a"))

    await api.get(f"{MAPS}/a")
    await late.call("GET", f"{MAPS}/a", status=404)
    await late.call("POST", MAPS, config_map("a"), status=409)


async def back(api):
    """Until the server answers again."""
    while True:
        try:
            return await api.get("/version")
        except aiohttp.ClientError:
            await asyncio.sleep(0.01)


async def test_a_restart_breaks_watches_and_forgets_the_history(cluster, api):
    old = (await api.get(MAPS))["metadata"]["resourceVersion"]
    await api.create(MAPS, config_map("a"))
    since = (await api.get(MAPS))["metadata"]["resourceVersion"]
    watch = await open_watch(api, count=9, resourceVersion=since)
    url = cluster.url

    assert await api.call("POST", "/_tutti/restart", {"downSeconds": 0.05}, status=202)
    _, end = await watch
    await back(api)

    assert end == "broken"
    assert cluster.url == url
    assert await exists(api, "a")
    expired = await api.events(MAPS, until=lambda kind, _: kind == "ERROR", resourceVersion=old)
    assert expired[-1][1]["code"] == 410
    gone = await api.call("GET", MAPS, status=410, resourceVersion=old, resourceVersionMatch="Exact")
    assert gone["reason"] == "Expired"
    resumed = asyncio.create_task(watched(api, count=1, resourceVersion=since))
    await api.create(MAPS, config_map("b"))
    assert (await resumed)[0] == [("ADDED", "b")]


async def test_a_scenario_can_restart_the_server_by_itself():
    faults = Faults(restarts=[Restart(at=0.05)])
    cluster = EmbeddedCluster(nodes=0, faults=faults, token="t")
    async with cluster, aiohttp.ClientSession(headers={"Authorization": "Bearer t"}) as session:
        api = Client(session, cluster.url)
        seen, end = await watched(api, count=9, resourceVersion="0")
        await back(api)

        assert (seen, end) == ([], "broken")


async def test_faults_can_be_there_from_the_start():
    rules = [Rule(name="r", error=Refusal(code=503), times=1)]
    cluster = EmbeddedCluster(nodes=0, faults=Faults(rules=rules), token="t")
    async with cluster, aiohttp.ClientSession(headers={"Authorization": "Bearer t"}) as session:
        await Client(session, cluster.url).call("GET", MAPS, status=503)


async def test_a_kind_that_is_not_discovered_is_served_all_the_same(api, faults):
    await faults(undiscovered=["deployments.apps"])
    shown = [one["name"] for one in (await api.call("GET", "/apis/apps/v1"))["resources"]]
    assert "replicasets" in shown
    assert not [name for name in shown if name.partition("/")[0] == "deployments"]
    assert (await api.call("GET", "/apis/apps/v1/deployments"))["items"] == []
    await api.call("DELETE", FAULTS)
    assert "deployments" in [one["name"] for one in (await api.call("GET", "/apis/apps/v1"))["resources"]]
