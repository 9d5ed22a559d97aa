"""Every field of every kind that is watched, with something in it that does not belong there, in an engine's way.

`make fuzz` goes on where this ends: with every value at every place, and several at once.
"""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from tests.hostile import honest, texts
from tests.hostile.cases import Case, Graft, fields, shown, sweep, values
from tests.hostile.command import batches, culprit, in_process, report, smallest, summary
from tests.hostile.honest import GANGS
from tests.hostile.kinds import targets
from tests.hostile.other_projects import DEVICES
from tests.hostile.shapes import Shape, shape_of
from tests.hostile.target import Target
from tests.hostile.texts import texts_of_json
from tests.hostile.ward import TOPOLOGIES, Ward, harm, treat
from tutti.api import network, provisioning, throttles
from tutti.api.configuration import Conventions, TuttiConfiguration
from tutti.api.conventions import membership_keys, reading
from tutti.api.conventions.gang_objects import GANG_KINDS
from tutti.api.core import Pod
from tutti.api.frameworks import KNOWN_KINDS
from tutti.cluster.cluster import Cluster
from tutti.controller.watch_list import WATCH_LIST, optional_kinds

AT_ONCE = 100
MOST = 400
"""Objects of one kind; pods and templates have three times as many fields, most of which nobody reads."""


class Inner(msgspec.Struct, rename="camel"):
    new_number: int = 0


class View(msgspec.Struct):
    """A view with a field that no other has."""

    metadata: dict[str, str] = {}
    spec: list[Inner] = []


TARGETS = {target.name: target for target in targets()}


OWNERS = tuple(TARGETS[f"{one.kind}.{one.group}"] for one in KNOWN_KINDS)
TOGETHER = {name: (target,) for name, target in TARGETS.items() if target not in OWNERS} | {"owners": OWNERS}


@pytest.mark.parametrize("name", TOGETHER)
def test_honest_pods_are_placed_whatever_is_in_any_field_of(name):
    cases = list(sweep(1, seed=1, kinds=TOGETHER[name]))
    cases = random.Random(1).sample(cases, min(MOST, len(cases)))
    ward = Ward()
    for at in range(0, len(cases), AT_ONCE):
        treat(ward, cases[at : at + AT_ONCE])


def test_pods_of_all_conventions_are_read_and_refused():
    ward = Ward()
    pods = TARGETS["Pod"]
    treat(ward, [Case(pods, base, (), number) for number, base in enumerate(sorted(pods.bases))])
    named = {convention for convention, times in ward.claims.items() if times}
    assert named >= {"none", "schedulerPlugins", *reading.READERS} - {"scheduler_plugins"}
    assert GANGS.keys() == reading.READERS.keys()
    ward.show(Case(pods, "gang of pfnet", (Graft(("metadata", "annotations", honest.PFNET_SIZE), "[", ""),), 100))
    assert ward.claims["refused"] == 1


def test_every_kind_that_is_watched_is_tried_and_every_label_that_is_read():
    others = {
        TOPOLOGIES,
        *(f"{kind}.resource.k8s.io" for kind in DEVICES),
        f"{throttles.NAMESPACED_KIND}.{throttles.GROUP}",
        *(f"{kind}.{group}" for kind, group in network.GROUPS.items()),
        f"{provisioning.REQUEST_KIND}.{provisioning.AUTOSCALING_GROUP}",
        *(f"{one.kind}.{one.group}" for one in (*GANG_KINDS, *KNOWN_KINDS)),
    }
    assert TARGETS.keys() == {stream.kind for stream in WATCH_LIST} | others
    assert {target.resource.label for target in TARGETS.values()} >= {
        one.name for one in optional_kinds(TuttiConfiguration())
    }
    found = set(texts.keys())
    assert membership_keys(Conventions()) <= found
    assert {"scheduling.tutti.dev/admission", "scheduling.tutti.dev/admission-gate"} <= found
    assert "volume.kubernetes.io/selected-node" in found
    assert texts_of_json()["yunikorn.apache.org/task-groups"].of.members.keys() >= {"minMember", "affinity"}


def test_a_new_field_is_tried_by_itself():
    target = Target("Thing", "Thing", TARGETS["Pod"].resource, shape_of(View), {"plain": {"metadata": {"name": "x"}}})
    found = {shown(path): shape for path, shape in fields(target)}
    assert found["spec[0].newNumber"].kind == "number"
    case = next(case for case in sweep(0, kinds=(target,)) if str(case).endswith("spec[0].newNumber = int64"))
    assert case.document["spec"] == [{"newNumber": 2**63 - 1}]
    assert {"zero", "exponent", "odd: null"} <= values(target, ("spec", 0, "newNumber"), Shape("number")).keys()


# That the fuzzer finds what there is to find, and says it in few words.


def _raise_at(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Have the engine raise for pods of which an annotation has a text in it."""
    real = Cluster.put_pod

    def broken(self: Cluster, pod: Pod, **options: Any) -> Any:
        if any(text in note for note in pod.metadata.annotations.values()):
            raise RuntimeError("the engine is broken")
        return real(self, pod, **options)

    monkeypatch.setattr(Cluster, "put_pod", broken)


def test_harm_is_found_and_traced_to_the_smallest_object_that_does_it(monkeypatch):
    _raise_at(monkeypatch, "@@")
    annotation = ("metadata", "annotations", "example.com/x")
    spec = ("spec", "priorityClassName")
    pods = TARGETS["Pod"]
    guilty = Case(pods, "plain", (Graft(annotation, "a" * 200 + "@@" + "b" * 200, "words"), Graft(spec, "x", "x")), 7)
    crowd = [Case(pods, "plain", (), number) for number in range(5)]
    assert harm(crowd) == ""
    assert "RuntimeError: the engine is broken" in harm([*crowd, guilty])
    assert culprit([*crowd, guilty], harm) == (guilty,)
    least = smallest(guilty, harm)
    assert [graft.value for graft in least.grafts] == ["@@"]
    said = report([*crowd, guilty], harm, "harm")
    assert "Pod, plain, with metadata.annotations[example.com/x] = part of words" in said
    assert json.loads(said.splitlines()[-1])["metadata"]["annotations"] == {"example.com/x": "@@"}


def test_equal_seeds_show_equal_objects_and_what_was_shown_is_told():
    first, again, other = (next(batches(seed)) for seed in (5, 5, 6))
    assert [case.text for case in first] == [case.text for case in again] != [case.text for case in other]
    told: list[str] = []
    tally = in_process(0.5, 5, told.append)
    assert not tally.found, told
    assert tally.objects >= len(first)
    lines = summary(tally, 5).splitlines()
    pods = len({shown(path) for path, _ in fields(TARGETS["Pod"])})
    assert f"Pod: {len(tally.fields['Pod'])} of {pods} fields" in lines
    assert {line.split(":")[0] for line in lines} >= TARGETS.keys() | {f"convention {one}" for one in reading.READERS}
    assert summary(tally, 5).endswith("0 found; seed 5")
