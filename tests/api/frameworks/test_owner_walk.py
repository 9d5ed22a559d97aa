"""Who decides among the owners of a pod, and what holds whoever does."""

from __future__ import annotations

import pytest

from tests.api.frameworks import shapes
from tests.api.frameworks.owners import Objects
from tests.api.frameworks.pods import jobset_pod, ray_pod
from tutti.api.conventions.membership import is_name
from tutti.api.core import OwnerReference
from tutti.api.frameworks import OwnerAwaited, PlacedAlone, SaidByPod, UnusableOwner
from tutti.api.frameworks.chain import MOST_OWNER_LEVELS


def test_a_pod_that_says_its_gang_itself_is_not_asked_about_owners():
    """Precedence: ours, native, other projects' objects, annotations, and owners last; native Basic switches these off."""
    objects = Objects(shapes.JOB)
    assert objects.answer(objects.pod("train-0-x", "Job/train", says_group=True)) == SaidByPod()


@pytest.mark.parametrize("where", ["pod", "owner", "top"])
def test_who_does_not_want_a_gang_says_so(where):
    objects = Objects(shapes.TRAIN_JOB, shapes.TRAIN_JOB_SET)
    name = {"owner": "JobSet/tune", "top": "TrainJob/tune"}.get(where)
    if name:
        objects.raw[name]["metadata"]["annotations"] = {"scheduling.tutti.dev/gang": "Apart"}
    pod = jobset_pod(objects, "node", jobset="tune")
    if where == "pod":
        annotations = {"scheduling.tutti.dev/gang": "Apart"}
        pod = objects.pod("p", "Job/tune-node-0", annotations=annotations)
    assert isinstance(objects.answer(pod), PlacedAlone)


def test_the_gang_is_not_known_until_all_owners_are_seen():
    objects = Objects(shapes.TRAIN_JOB, shapes.TRAIN_JOB_SET)
    pod = jobset_pod(objects, "node", jobset="tune")
    for name in ("Job/tune-node-0", "JobSet/tune", "TrainJob/tune"):
        objects.unseen = {name}
        answer = objects.answer(pod)
        assert isinstance(answer, OwnerAwaited)
        assert answer.text.startswith(name.replace("/", " "))
    objects.unseen = set()
    assert objects.gang(pod)


def test_the_last_owner_that_can_be_read_decides_where_one_above_cannot():
    """KAI's podgrouper does the same on 403 and 404."""
    objects = Objects(shapes.RAY_JOB, shapes.RAY_JOB_CLUSTER)
    objects.unreadable.add("RayJob/rj")
    gang = objects.gang(ray_pod(objects, "headgroup", "rj-abcde"))
    assert gang.owner == "RayCluster rj-abcde"
    assert gang.notes == ("RayJob rj, which owns RayCluster rj-abcde, is not read",)


def test_an_owner_of_the_same_name_and_another_uid_is_not_the_one():
    objects = Objects(shapes.JOB)
    pod = objects.pod("train-0-x", "Job/train")
    objects.change("Job/train", "metadata.uid", "another")
    assert objects.answer(pod) == PlacedAlone("Job train, which owns Pod train-0-x, is gone")


def test_an_only_owner_counts_though_it_does_not_control():
    objects = Objects(shapes.JOB)
    owners = [OwnerReference("batch/v1", "Job", "train", "uid-Job/train", controller=False)]
    assert objects.gang(objects.pod("p", owners=owners))


def test_among_several_owners_only_a_controller_is_followed():
    objects = Objects(shapes.JOB)
    job = OwnerReference("batch/v1", "Job", "train", "uid-Job/train")
    other = OwnerReference("v1", "ConfigMap", "c", "u")
    assert objects.answer(objects.pod("p", owners=[job, other])) == PlacedAlone(
        "Pod p has 2 owners, none of which controls it"
    )


def test_a_native_pod_group_among_the_owners_is_no_step():
    """1.37 makes the PodGroup a second owner of a Job's pods."""
    objects = Objects(shapes.JOB)
    job = OwnerReference("batch/v1", "Job", "train", "uid-Job/train")
    group = OwnerReference("scheduling.k8s.io/v1beta1", "PodGroup", "g", "u", controller=True)
    assert objects.gang(objects.pod("p", owners=[group, job]))


def test_owners_that_own_one_another_are_followed_a_bounded_way():
    objects = Objects("{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}")
    objects.raw["Deployment/a"]["metadata"]["ownerReferences"] = [objects._written(objects.reference("Deployment/a"))]
    chain = objects.chain(objects.pod("p", "Deployment/a"))
    assert len(chain.owners) == MOST_OWNER_LEVELS
    assert chain.note == "Deployment a has owners above: 10 are followed"


def test_an_object_that_is_suspended_keeps_its_minimum():
    objects = Objects(shapes.JOB)
    objects.change("Job/train", "spec.suspend", value=True)
    gang = objects.gang(objects.pod("p", "Job/train"))
    assert (gang.suspended, gang.minimum) == (True, 4)


def test_replicas_that_change_while_pods_wait_change_the_gang():
    objects = Objects(shapes.JOB)
    pod = objects.pod("p", "Job/train")
    before = objects.gang(pod)
    objects.change("Job/train", "spec.parallelism", 2)
    objects.change("Job/train", "spec.completions", 2)
    after = objects.gang(pod)
    assert (before.group, before.minimum, after.minimum) == (after.group, 4, 2)


def test_a_gang_that_is_larger_than_any_may_be_is_told():
    objects = Objects(shapes.JOB)
    for field in ("parallelism", "completions"):
        objects.change("Job/train", f"spec.{field}", 100_001)
    assert objects.answer(objects.pod("p", "Job/train")) == UnusableOwner(
        "Job train", ("100001 pods would have to start at once: at most 100000 can be one gang",)
    )


def test_what_is_wrong_with_an_owner_holds_its_pods_back_and_no_others():
    objects = Objects(shapes.JOB, shapes.JOB_SET)
    objects.change("Job/train", "spec.parallelism", "four")
    objects.change("Job/train", "metadata.annotations", {"scheduling.tutti.dev/min-member": "-1"})
    ours = "metadata.annotations[scheduling.tutti.dev/min-member]"
    right = "must be a whole number from 0 to 2147483647, not 'four'"
    assert objects.answer(objects.pod("p", "Job/train")) == UnusableOwner(
        "Job train",
        (
            f"{ours}: '-1' is not a whole number of at least 1 and at most 100000: write one, such as 4",
            f"spec.parallelism: {right}",
        ),
    )
    assert objects.gang(jobset_pod(objects, "driver"))


@pytest.mark.parametrize("name", ["generated-abc12", "a" * 253, "Weird_Name", "ü", ""])
def test_names_of_gangs_can_be_those_of_objects(name):
    objects = Objects(shapes.JOB)
    pod = objects.pod("p", "Job/train")
    objects.change("Job/train", "metadata.name", name)
    gang = objects.gang(pod)
    assert is_name(gang.group_name)
    assert is_name(gang.workload_name)
