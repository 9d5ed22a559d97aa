"""Whatever a cluster looks like, every view has an answer, its numbers add up, and nothing that was asked is changed."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.views.scene import GPU, RACK, Json, group, node, ours, pod, queue, told
from tests.drawing import examples
from tutti.cli.views.command_line import plain
from tutti.cli.views.drain.checking import check_drain
from tutti.cli.views.drain.command import draw_drain
from tutti.cli.views.drain.trial import PodFate
from tutti.cli.views.explain.command import explanation_of
from tutti.cli.views.explain.drawing import draw_explained
from tutti.cli.views.explain.model import GateOutcome
from tutti.cli.views.gangs import draw_gangs, gangs
from tutti.cli.views.nodes import draw_top, top
from tutti.cli.views.quota_tree import Branch, draw_forest, forest

MODELS = ("NVIDIA-A100", "NVIDIA-H100")
TAINT = {"key": "team", "value": "x", "effect": "NoSchedule"}

nodes = st.lists(
    st.tuples(st.sampled_from(MODELS), st.sampled_from(("r1", "r2")), st.booleans(), st.booleans()), max_size=4
)
queues = st.lists(
    st.tuples(st.sampled_from(("", "both")), st.sampled_from(("a", "h")), st.integers(0, 16), st.booleans()),
    min_size=1,
    max_size=3,
)
members = st.tuples(
    st.integers(1, 3),  # how many the gang needs
    st.integers(0, 4),  # how many there are
    st.sampled_from((0, 1, 4, 8)),  # devices of each
    st.integers(-1, 3),  # its queue: none, one of those there are, or one that is not
    st.integers(-1, 3),  # the node that its first members run on, or none
    st.booleans(),  # whether all must share a rack
    st.booleans(),  # whether something makes its pods again
)


@st.composite
def clusters(draw: Any) -> list[Json]:
    """A few nodes, queues and gangs, some of which run."""
    made: list[Json] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "d"}}]
    there = draw(nodes)
    for index, (model, rack, cordoned, tainted) in enumerate(there):
        made.append(node(f"n{index}", model, rack, unschedulable=cordoned, taints=[TAINT] if tainted else []))
    for name, model in zip(("a", "h"), MODELS, strict=True):
        made.append(ours("ResourceFlavor", name, {"nodeLabels": {"nvidia.com/gpu.product": model}}))
    found = draw(queues)
    for index, (cohort, flavor, gpus, strict) in enumerate(found):
        made += [queue(f"q{index}", cohort, flavor, gpus, strict=strict)]
        made += [ours("LocalQueue", f"q{index}", {"clusterQueue": f"q{index}"}, "d")]
    for index, one in enumerate(draw(st.lists(members, max_size=5))):
        made += _gang(f"g{index}", one, nodes=len(there), flavors=[flavor for _, flavor, _, _ in found])
    made += [pod("d", "web", 1, on="n0", scheduler="default-scheduler", owner="ReplicaSet", labels={"app": "web"})]
    return made


def _gang(name: str, said: Any, *, nodes: int, flavors: list[str]) -> list[Json]:
    needed, there, gpus, at, on, near, owned = said
    made = group("d", name, needed, queue=f"q{at}", rack=near)
    if at < 0:
        del made["spec"]["queueName"]
    runs = 0 <= on < nodes
    admitted = (f"q{at}", flavors[at]) if runs and 0 <= at < len(flavors) else None
    owner = "Job" if owned else ""
    pods = [
        pod(
            "d",
            f"{name}-{n}",
            gpus,
            gang=name,
            on=f"n{on}" if runs and n < needed else "",
            admitted=admitted,
            owner=owner,
        )
        for n in range(there)
    ]
    return [made, *pods]


def adds_up(branch: Branch) -> None:
    """What a cohort uses is what is used in it."""
    for use in branch.uses if branch.children else ():
        below = [one for child in branch.children for one in child.uses]
        assert use.used == sum(one.used for one in below if (one.flavor, one.resource) == (use.flavor, use.resource))
    for child in branch.children:
        adds_up(child)
    assert all(use.free is None or use.free >= 0 for use in branch.uses)


@given(made=clusters())
@examples(60)
def test_every_view_has_an_answer_that_adds_up(made: list[Json]) -> None:
    asked = told(made)
    state = asked.stock().state
    roots = forest(state)
    found = top(state, [GPU])

    for root in roots:
        adds_up(root)
    assert sum(one.used for one in found.nodes) == sum(one.used for one in found.models)
    for one in found.models:
        assert sum(size * many for size, many in one.holes.items()) == one.free
        assert one.fits[1] == one.free
    for drawn in (draw_forest(roots, {GPU}), draw_top(found), draw_gangs(gangs(asked), asked.at)):
        assert plain(drawn).strip()


@given(made=clusters())
@examples(60)
def test_every_workload_is_explained_and_the_state_is_left_as_it_was(made: list[Json]) -> None:
    asked = told(made)
    state = asked.stock().state
    nodes = state.cluster.nodes
    before, queues = nodes.requested[nodes.present].copy(), forest(state)

    for key in list(state.workloads):
        found = explanation_of(asked, state, key)
        waits = [step for step in found.steps if step.verdict is GateOutcome.WAITS]
        assert len(waits) == (asked.what_if(asked.listed.seen, key) is not None)
        assert not found.remedies or waits
        for room in found.rooms:
            assert room.fits <= room.pods
            assert room.open + sum(one.nodes for one in room.ruled) >= room.nodes
            assert not room.level or room.level == RACK
        assert plain(draw_explained(found, asked.at)).strip()

    assert np.array_equal(nodes.requested[nodes.present], before)
    assert forest(state) == queues


@given(made=clusters())
@examples(40)
def test_every_node_can_be_checked(made: list[Json]) -> None:
    asked = told(made)
    state = asked.stock().state

    for name in list(state.cluster.nodes.rows):
        found = check_drain(asked, state, name)
        assert all((one.fate is PodFate.MOVES) == bool(one.to) for one in found.pods)
        assert all(one.to != name for one in found.pods)
        assert all(
            one.breaks == (one.bound - one.leaving < one.required) for one in found.gangs if one.bound >= one.required
        )
        assert plain(draw_drain(found)).strip()
