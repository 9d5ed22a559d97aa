"""Builders: what an observer would have seen of a small play."""

from __future__ import annotations

from tutti_demo.picture import NodeView, Picture
from tutti_demo.scenario import Act, Job, Scenario, Team, Wave
from tutti_demo.track import PodView, Why


def job(name: str = "tango", members: int = 3, *, team: str = "vision", gpus: int = 4) -> Job:
    return Job(name=name, team=team, members=members, gpus=gpus, at=0.0, run_seconds=1.0)


def act(*jobs: Job, number: int = 1) -> Act:
    waves = (Wave(0.0, tuple((one, pod) for one in jobs for pod in one.pods)),)
    return Act(number, "an act", "what to look at", jobs, waves)


def picture(*acts: Act, nodes: int = 2, gpus: int = 8) -> Picture:
    made = Picture(Scenario((Team("vision", 64, 16), Team("speech", 96, 64)), acts, nodes, gpus))
    for index in range(nodes):
        made.see_node(NodeView(f"node-{index}", f"rack-{index // 2}", f"node-{index}", gpus))
    return made


def pod(of: Job, index: int = 0, *, node: str = "", phase: str = "Pending", uid: str = "", why: Why | None = None):
    name = of.pods[index]
    return PodView(of.team, name, uid or f"uid-{name}", of.name, node, phase, of.gpus, why)


def arrive(on: Picture, of: Job, *, at: float) -> None:
    for index in range(of.members):
        on.see_pod(pod(of, index), at=at)


def bind(on: Picture, of: Job, *, at: float, node: str = "node-0") -> None:
    for index in range(of.members):
        on.see_pod(pod(of, index, node=node), at=at)


def finish(on: Picture, of: Job, *, at: float, node: str = "node-0", phase: str = "Succeeded") -> None:
    for index in range(of.members):
        on.see_pod(pod(of, index, node=node, phase=phase), at=at)
