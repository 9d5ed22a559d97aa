"""Random histories of applications on a network: no link is promised more than it has, whoever comes, leaves or fails."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.differential.network import app_group, labelled, network_topology
from tests.drawing import TIMES, examples
from tests.engine.histories.draws import RACK_OF
from tests.engine.histories.watched import Watched
from tests.engine.stories.test_invariants import Histories
from tutti.api.network import APP_GROUP, REGION, TOPOLOGY, ZONE
from tutti.engine.records.decisions import AnyDecision

ZONES = {"n0": "z1", "n1": "z2", "n2": "z3", "n3": "z1", "n4": ""}
REGIONS = {"z1": "west", "z2": "west", "z3": "east", "": "west"}
NEEDS = {"web": (("db", 300), ("web", 50)), "log": (("web", 100),), "db": ()}
M = 1_000_000
CAPACITIES = st.sampled_from([None, 100, 300, 600, 1000])
PARTS = st.sampled_from(["web", "db", "log"])
LINKS = ((ZONE, "z1", "z2"), (ZONE, "z2", "z1"), (REGION, "west", "east"), (REGION, "east", "west"))


class Linked(Watched):
    """A world that counts by itself, pod by pod, what those that are placed take of links."""

    def __init__(self, **configuration: Any) -> None:
        self.capacity: dict[tuple[str, str, str], int | None] = dict.fromkeys(LINKS)
        self.needs: dict[str, tuple[tuple[str, int], ...]] = NEEDS
        self.before: dict[tuple[str, str], str] = {}
        super().__init__(**configuration)

    def decide(self, advance: float = 0.0) -> list[AnyDecision]:
        self.before = self._placed()
        return super().decide(advance)

    def check(self) -> None:
        super().check()
        now = self._placed()
        stay = {key: place for key, place in self.before.items() if now.get(key) == place}
        taken, taken_before = self._taken(now), self._taken(stay)
        for link, capacity in self.capacity.items():
            if capacity is not None:
                most = max(capacity * M, taken_before.get(link, 0))
                assert taken.get(link, 0) <= most, f"{link} is promised {taken[link]} of {capacity * M}"

    def _placed(self) -> dict[tuple[str, str], str]:
        return {
            key: pod.place
            for key, pod in self.engine.state.cluster.pods.items()
            if pod.place in self.nodes and not pod.terminated
        }

    def _taken(self, placed: dict[tuple[str, str], str]) -> dict[tuple[str, str, str], int]:
        """Every pod with every other that it needs, by what lies between their nodes."""
        parts: dict[str, list[tuple[str, str]]] = {}
        for key, node in placed.items():
            labels = self.pods[key].metadata.labels if key in self.pods else {}
            workload = labels.get("appgroup.diktyo.x-k8s.io.workload")
            if workload is not None:
                at = self.nodes[node].metadata.labels
                parts.setdefault(workload, []).append((at.get(REGION, ""), at.get(ZONE, "")))
        out: dict[tuple[str, str, str], int] = {}
        for workload, needed in self.needs.items():
            for on, megabits in needed:
                for here_region, here_zone in parts.get(workload, ()):
                    for there_region, there_zone in parts.get(on, ()):
                        link = (
                            (ZONE, here_zone, there_zone)
                            if here_region == there_region
                            else (REGION, here_region, there_region)
                        )
                        if link[1] != link[2]:
                            out[link] = out.get(link, 0) + megabits * M
        return out


class NetworkHistories(Histories):
    """The same steps, with parts of an application among the pods, links that change, and an AppGroup that comes and goes."""

    def make_world(self, **configuration: Any) -> Linked:
        world = Linked(**configuration, network={"bandwidth": True})
        self.links(dict.fromkeys(LINKS, 600), world)
        world.network_object(APP_GROUP, group_of(NEEDS))
        return world

    def links(self, capacity: dict[tuple[str, str, str], int | None], world: Linked) -> None:
        world.capacity = capacity
        costs = [
            {"key": key, "origin": origin, "destination": to, "networkCost": 5}
            | ({} if capacity[key, origin, to] is None else {"bandwidthCapacity": f"{capacity[key, origin, to]}M"})
            for key, origin, to in LINKS
        ]
        world.network_object(TOPOLOGY, network_topology(costs))

    def _node(self, name: str, *, gpus: int, kind: str, cordoned: bool = False) -> None:
        zone = ZONES[name]
        labels = {"kind": kind, "rack": RACK_OF[name], REGION: REGIONS[zone], **({ZONE: zone} if zone else {})}
        self.world.node(name, gpus=gpus, labels=labels, cordoned=cordoned)

    @rule(part=PARTS, gpus=st.integers(0, 1), priority=st.integers(0, 2), count=st.integers(1, 3))
    def add_part(self, part: str, gpus: int, priority: int, count: int) -> None:
        for _ in range(count):
            self.world.pod(self._name(part), gpus=gpus, priority=priority, labels=labelled(part))
        self.world.decide()

    @rule(web=st.integers(1, 2), log=st.integers(0, 1), priority=st.integers(0, 2))
    def submit_application(self, web: int, log: int, priority: int) -> None:
        name = self._name("app")
        self.world.pod_group(name, web + log + 1)
        for part, count in (("web", web), ("log", log), ("db", 1)):
            for _ in range(count):
                self.world.pod(self._name(part), group=name, priority=priority, labels=labelled(part))
        self.world.decide()

    @rule(capacities=st.tuples(*[CAPACITIES] * len(LINKS)))
    def change_links(self, capacities: tuple[int | None, ...]) -> None:
        self.links(dict(zip(LINKS, capacities, strict=True)), self.world)
        self.world.decide()

    @rule(megabits=st.sampled_from([0, 100, 300, 700]))
    def change_needs(self, megabits: int) -> None:
        self.world.needs = {**NEEDS, "web": (("db", megabits), ("web", 50))}
        self.world.network_object(APP_GROUP, group_of(self.world.needs))
        self.world.decide()


def group_of(needs: dict[str, tuple[tuple[str, int], ...]]) -> dict[str, Any]:
    found = {
        workload: [
            {"workload": on, "maxNetworkCost": 20, **({"minBandwidth": f"{megabits}M"} if megabits else {})}
            for on, megabits in needed
        ]
        for workload, needed in needs.items()
    }
    return app_group(found)


NetworkHistories.TestCase.settings = examples(5, stateful_step_count=40, suppress_health_check=list(HealthCheck))
TestNetworkHistories = pytest.mark.timeout(900 * TIMES)(NetworkHistories.TestCase)
