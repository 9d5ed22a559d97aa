"""The queue of pods is read from what owns them, where neither they nor their gang name one.

Which labels count and how far owners are followed: Kueue 0.20 (`pkg/controller/constants`, `managedOwnersChainLimit`).
Nearest first, because Kueue's webhooks write the owner's queue into the pods and templates may say another.
"""

from __future__ import annotations

import pytest

from tests.engine.world import World
from tutti.api.core import OwnerReference
from tutti.api.frameworks import ProjectedOwner
from tutti.engine.ingest.membership import PATIENCE_SECONDS
from tutti.engine.records.observations import OwnerKindFollowed, OwnerSeen

OURS = "scheduling.tutti.dev/queue-name"
KUEUES = "kueue.x-k8s.io/queue-name"


def a_world(gpus: int = 1, **configuration) -> World:
    world = World(**configuration)
    world.follow_owners()
    world.flavor()
    world.queue("team", gpus)
    world.node("n1", gpus=8)
    world.node("n2", gpus=8)
    return world


def job(world: World, pods: int, owner: OwnerReference, **pod) -> None:
    for index in range(pods):
        world.pod(f"{owner.name}-{index}", owner=owner, **pod)


@pytest.mark.parametrize("label", [OURS, KUEUES])
@pytest.mark.parametrize("kind", ["Job", "ReplicaSet", "JobSet", "RayCluster", "PyTorchJob", "LeaderWorkerSet"])
def test_pods_of_a_labelled_owner_are_in_its_queue(kind, label):
    world = a_world(gpus=1)
    job(world, 12, world.owner(kind, "train", labels={label: "queue"}))
    world.run()
    assert len(world.where()) == 1
    assert world.used("team") == 1


def test_the_top_owner_counts_as_well():
    world = a_world(gpus=2)
    top = world.owner("CronJob", "nightly", labels={KUEUES: "queue"})
    job(world, 4, world.owner("Job", "nightly-1", controller=top))
    world.run()
    assert len(world.where()) == 2


def test_the_nearest_one_decides_and_the_pod_is_nearest():
    world = a_world(gpus=1)
    world.queue("other", 4, local="other")
    top = world.owner("CronJob", "nightly", labels={KUEUES: "queue"})
    nearer = world.owner("Job", "nightly-1", controller=top, labels={OURS: "other"})
    job(world, 3, nearer)
    world.pod("own", owner=nearer, queue="queue")
    world.run()
    assert (world.used("other"), world.used("team")) == (3, 1)


def test_ours_goes_before_kueues_on_one_object():
    world = a_world(gpus=1)
    world.queue("other", 4, local="other")
    job(world, 3, world.owner("Job", "train", labels={KUEUES: "queue", OURS: "other"}))
    world.run()
    assert world.used("other") == 3


def test_kueues_label_says_nothing_where_that_convention_is_off():
    world = a_world(gpus=1, conventions={"kueue": False})
    job(world, 3, world.owner("Job", "train", labels={KUEUES: "queue"}))
    world.run()
    assert len(world.where()) == 3


def test_a_pod_that_owns_pods_passes_its_queue_on():
    """As Spark's driver does: the executors' controller is the driver, and the application's is above that."""
    world = a_world(gpus=2)
    driver = world.pod("driver", owner=world.owner("SparkApplication", "app", labels={KUEUES: "queue"}))
    above = OwnerReference("v1", "Pod", "driver", driver.metadata.uid, controller=True)
    job(world, 3, above)
    world.run()
    assert len(world.where()) == 2


def test_an_owner_that_comes_after_its_pods_is_waited_for():
    world = a_world(gpus=1)
    owner = world.owner("Job", "train", labels={KUEUES: "queue"}, seen=False)
    job(world, 3, owner)
    world.run()
    assert world.where() == {}
    assert world.why("Pod", "train-0").reason == "OwnerNotSeen"
    world.decide(PATIENCE_SECONDS / 2)
    world.tell(OwnerSeen(world.owners[owner.uid]))
    world.run()
    assert len(world.where()) == 1


def test_one_above_that_comes_later_is_waited_for_too():
    world = a_world(gpus=1)
    top = world.owner("CronJob", "nightly", labels={KUEUES: "queue"}, seen=False)
    job(world, 3, world.owner("Job", "nightly-1", controller=top))
    world.run()
    assert world.where() == {}
    world.tell(OwnerSeen(world.owners[top.uid]))
    world.run()
    assert len(world.where()) == 1


def test_one_that_never_comes_is_waited_for_a_while_only():
    world = a_world()
    job(world, 2, OwnerReference("batch/v1", "Job", "gone", "no-such-uid", controller=True))
    world.run()
    assert world.where() == {}
    world.decide(PATIENCE_SECONDS)
    world.run()
    assert len(world.where()) == 2


@pytest.mark.parametrize("kind", [("batch", "Job"), ("example.com", "Thing")])
def test_what_cannot_be_read_is_not_waited_for(kind):
    """A kind that is not served, may not be listed, or that nobody reads."""
    world = a_world()
    world.tell(OwnerKindFollowed(*kind, followed=False))
    job(world, 2, OwnerReference(f"{kind[0]}/v1", kind[1], "train", "some-uid", controller=True))
    world.run()
    assert len(world.where()) == 2


def test_those_who_wait_for_a_kind_go_on_when_it_is_no_longer_followed():
    world = a_world()
    job(world, 2, OwnerReference("batch/v1", "Job", "train", "some-uid", controller=True))
    world.run()
    assert world.where() == {}
    world.tell(OwnerKindFollowed("batch", "Job", followed=False))
    world.run()
    assert len(world.where()) == 2


def test_a_label_that_is_added_later_moves_those_that_wait():
    world = a_world(gpus=1, requireQueue=True)
    owner = world.owner("Job", "train")
    job(world, 3, owner)
    world.run()
    assert world.why("Pod", "train-0").reason == "NoQueue"
    world.owner("Job", "train", labels={KUEUES: "queue"})
    world.run()
    assert len(world.where()) == 1


def test_an_owner_that_is_gone_is_remembered_while_its_pods_are_there():
    """A Job that is deleted in the background is gone before its pods are."""
    world = a_world(gpus=1)
    owner = world.owner("Job", "train", labels={KUEUES: "queue"})
    job(world, 3, owner)
    world.run()
    world.remove_owner(owner)
    world.decide(PATIENCE_SECONDS * 2)
    world.run()
    assert (len(world.where()), world.used("team")) == (1, 1)


def test_a_queue_that_no_object_can_have_holds_the_pods_back_and_nobody_else():
    world = a_world()
    job(world, 1, world.owner("Job", "train", labels={KUEUES: "No_Name"}))
    world.pod("other")
    world.run()
    assert list(world.where()) == ["other"]
    assert "Job train" in world.why("Pod", "train-0").message


def test_what_an_owner_says_of_its_queue_is_charged_alike_after_a_restart():
    world = a_world(gpus=2)
    job(world, 3, world.owner("Job", "train", labels={KUEUES: "queue"}))
    world.run()
    assert world.used("team") == 2
    world.restart(backwards=True)
    world.run()
    assert (len(world.where()), world.used("team")) == (2, 2)


def test_nothing_is_kept_of_owners_whose_pods_have_gone():
    world = a_world(gpus=2)
    top = world.owner("CronJob", "nightly", labels={KUEUES: "queue"})
    owner = world.owner("Job", "nightly-1", controller=top)
    job(world, 2, owner)
    world.run()
    for ref in (top, owner):
        world.remove_owner(ref)
    for index in range(2):
        world.delete(f"nightly-1-{index}")
    world.run()
    kept = world.engine.state.owner_graph
    assert [kept._known, kept._gone, kept._controlled, kept._members] == [{}, set(), {}, {}]


def test_an_owner_of_another_namespace_is_nobodys_owner():
    """Anybody may write the uid of what is not his; it tells him no name of a queue."""
    world = World(namespaces=("default", "other"))
    world.follow_owners()
    world.flavor()
    world.queue("team", 1, local="secret")
    world.node("n1", gpus=8)
    world.pod("thief", namespace="other", owner=world.owner("Job", "train", labels={KUEUES: "secret"}))
    world.run()
    assert "secret" not in str(world.why("Pod", "thief", "other"))
    world.decide(PATIENCE_SECONDS)
    world.run()
    assert world.where(namespace="other")


def test_what_names_an_owner_of_another_namespace_is_not_looked_at_for_it():
    world = World(namespaces=("default", "evil"))
    world.follow_owners()
    top = world.owner("JobSet", "js", spec={"replicatedJobs": []})
    mine = world.owner("Job", "mine", controller=top)
    theirs = world.owner("Job", "theirs", controller=top, namespace="evil")
    job(world, 1, mine)
    world.pod("direct", namespace="evil", owner=top)
    world.pod("below", namespace="evil", owner=theirs)
    graph = world.engine.state.owner_graph
    assert {one.pod.name for one in graph.await_no_more(top.uid)} == {"mine-0"}


def test_owners_that_own_one_another_end_nothing():
    world = a_world()
    ref = OwnerReference("batch/v1", "Job", "b", "Job-b", controller=True)
    world.owner("Job", "b", controller=world.owner("Job", "a", controller=ref))
    job(world, 1, ref)
    world.run()
    assert len(world.where()) == 1


@pytest.mark.parametrize("ring", [("a",), ("a", "b"), ("a", "b", "c")])
@pytest.mark.parametrize("last", ["owners", "pods"])
def test_nothing_is_kept_of_owners_that_owned_one_another(ring, last):
    """Anybody may write such references; nothing of them is below the others alone."""
    world = a_world()
    for name, above in zip(ring, (*ring[1:], ring[0]), strict=True):
        world.owner("Job", name, controller=OwnerReference("batch/v1", "Job", above, f"Job-{above}", controller=True))
    refs = [OwnerReference("batch/v1", "Job", name, f"Job-{name}", controller=True) for name in ring]
    assert isinstance(world.engine.state.owner_graph.look_up(refs[0], "default"), ProjectedOwner)
    job(world, 1, refs[0])
    world.run()
    if last == "pods":
        for ref in refs:
            world.remove_owner(ref)
    world.delete("a-0")
    world.run()
    if last == "owners":
        for ref in refs:
            world.remove_owner(ref)
    kept = world.engine.state.owner_graph
    assert [kept._known, kept._gone, kept._controlled, kept._members] == [{}, set(), {}, {}]
