"""The operator as a process, on an embedded cluster where much goes wrong."""

import json

import pytest

from tests.controller.objects import cluster_queue, gang, local_queue, obj
from tests.controller.process import Cluster, operator, until
from tutti.controller.discovery import OUR_RESOURCES
from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.errors import ApiError, NotSent, UnknownOutcome
from tutti.kube.resources import PODS
from tutti_sim.cluster import EmbeddedCluster
from tutti_sim.faults.rules import Faults, Match, Refusal, Restart, Rule, WatchFault

SIZE = 20
# On a busy machine a short lease could be lost, and that ends the process, as it should: here it would only disturb.
PATIENT = {"leaseDurationSeconds": 60, "renewDeadlineSeconds": 45, "retryPeriodSeconds": 1}
# Only what the operator does goes wrong, and its lease is left alone: a lost lease ends the process, as it should.
OPERATOR = ["tutti*"]
WRITES = Match(agents=OPERATOR, verbs=["create", "update", "patch"], resources=["pods/*", "podgroups*", "events"])
READS = Match(agents=OPERATOR, verbs=["get", "list"], resources=["pods", "nodes", "podgroups", "workloads"])
WATCHES = Match(agents=OPERATOR, verbs=["watch"], resources=["pods", "nodes", "podgroups", "clusterqueues"])
BINDS = Match(agents=OPERATOR, verbs=["create"], resources=["pods/binding"])
STORM = Faults(
    seed=11,
    rules=[
        Rule(name="slow", match=WRITES, rate=0.3, latency="exp(0.02)"),
        Rule(name="throttled", match=WRITES, rate=0.1, times=5, error=Refusal(code=429, retry_after_seconds=1)),
        Rule(name="broken", match=WRITES, rate=0.15, times=8, error=Refusal(code=500)),
        Rule(name="away", match=READS, rate=0.2, times=5, error=Refusal(code=503)),
        Rule(name="unanswered", match=BINDS, rate=0.3, times=6, reset="after"),
        Rule(name="unheard", match=BINDS, rate=0.1, times=3, reset="before"),
        Rule(name="late-error", match=BINDS, rate=0.1, times=3, error=Refusal(code=504, after=True)),
        Rule(name="dropped", match=WATCHES, times=12, watch=WatchFault(drop_after_events=3)),
        Rule(name="echo", match=WATCHES, watch=WatchFault(duplicate=0.3, delay="0-0.05")),
        Rule(name="clock", match=WRITES, rate=0.2, skew_seconds=-30),
    ],
)


@pytest.fixture
async def embedded():
    async with EmbeddedCluster(nodes=4, gpus=8, seed=1) as made:
        yield made


@pytest.fixture
async def cluster(embedded):
    access = Access(embedded.url, headers={"Authorization": f"Bearer {embedded.token}"})
    async with Client(Credentials.fixed(access), user_agent="test", timeout_seconds=30) as client:
        found = Cluster(client)
        await found.install_crds()
        await found.create(OUR_RESOURCES["ResourceFlavor"], obj("ResourceFlavor", "f"))
        await found.create(OUR_RESOURCES["ClusterQueue"], cluster_queue(cpu=str(SIZE)))
        await found.create(OUR_RESOURCES["LocalQueue"], local_queue())
        yield found


async def put(cluster, faults):
    body = json.dumps(faults.model_dump(by_alias=True, exclude_defaults=True)).encode()
    await cluster.client.request("PUT", "/_tutti/faults", body=body)


async def struck(cluster):
    counts = json.loads(await cluster.client.request("GET", "/_tutti/faults/counts"))
    return {name for name, count in counts.items() if count["struck"]}


async def nodes_of(cluster, name):
    pods = [one for one in await cluster.list(PODS) if one["metadata"]["name"].startswith(name)]
    return {one["metadata"]["uid"]: one["spec"].get("nodeName") for one in pods}


async def start(cluster, name):
    group, *members = gang(name, SIZE)
    await cluster.create(OUR_RESOURCES["PodGroup"], group)
    for member in members:
        await cluster.create(PODS, member)
    return set(await nodes_of(cluster, name))


async def start_patiently(cluster, name):
    """Create a gang on a server that comes and goes; what was created without our hearing of it is there already."""
    group, *members = gang(name, SIZE)
    for resource, document in [(OUR_RESOURCES["PodGroup"], group), *((PODS, member) for member in members)]:
        await until(lambda resource=resource, document=document: answered(created(cluster, resource, document)))
    return set(await until(lambda: answered(nodes_of(cluster, name))))


async def created(cluster, resource, document):
    try:
        await cluster.create(resource, document)
    except ApiError as error:
        return error.status == 409
    return True


async def answered(call):
    """What a call answers; nothing while the server is away."""
    try:
        return await call
    except (NotSent, UnknownOutcome):
        return None


async def whole(cluster, name):
    """The nodes of a gang, once each of its pods has one."""
    found = await nodes_of(cluster, name)
    return found if len(found) == SIZE and all(found.values()) else None


async def scheduled(cluster, name):
    condition = await cluster.condition(OUR_RESOURCES["PodGroup"], name, "default", "Scheduled")
    return condition.get("status") == "True"


async def test_a_gang_is_bound_whole_through_a_storm(embedded, cluster, tmp_path):
    embedded.write_kubeconfig(tmp_path / "kubeconfig")
    await put(cluster, STORM)
    async with operator(tmp_path / "kubeconfig", tmp_path, leaderElection=PATIENT) as running:
        await running.says("deciding")
        uids = await start(cluster, "many")

        nodes = await until(lambda: whole(cluster, "many"))

        assert set(nodes) == uids, "a member was replaced, though nothing was wrong with it"
        await until(lambda: scheduled(cluster, "many"))
        assert {"broken", "unanswered", "dropped", "echo"} <= await struck(cluster)
        assert await running.stop() == 0


async def test_a_gang_is_bound_whole_though_the_server_restarts_in_between(embedded, cluster, tmp_path):
    embedded.write_kubeconfig(tmp_path / "kubeconfig")
    async with operator(tmp_path / "kubeconfig", tmp_path, leaderElection=PATIENT) as running:
        await running.says("deciding")
        await put(cluster, Faults(restarts=[Restart(at=0.1, down_seconds=0.2)]))

        uids = await start_patiently(cluster, "many")

        assert set(await until(lambda: answered(whole(cluster, "many")))) == uids
        await until(lambda: answered(scheduled(cluster, "many")))
        assert await running.stop() == 0
