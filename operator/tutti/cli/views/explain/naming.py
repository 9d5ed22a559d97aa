"""Which workload is meant by a name."""

from __future__ import annotations

import difflib

from tutti.cli.views.changing import key_of
from tutti.cli.views.drawing import first_few
from tutti.cli.views.listing import Listed
from tutti.engine.records.observations import PodSeen
from tutti.engine.records.workloads import WorkloadKey
from tutti.engine.state import State

KINDS = ("Workload", "PodGroup", "Pod")
"""What is queued and admitted together, the largest first."""
MOST_NEAR = 3
"""How many others are named that may have been meant."""


def named(state: State, listed: Listed, namespace: str, name: str) -> WorkloadKey | str:
    """Return the workload of a name, or why there is none: a Workload, else a gang, else a pod or the gang it is in."""
    for kind in KINDS:
        if (kind, namespace, name) in state.workloads:
            return kind, namespace, name
    home = state.home.get((namespace, name))
    if home is not None:
        return home[0]
    part = next(
        (key for key in state.workloads if key[1] == namespace and name in state.catalog.referring(*key[1:])), None
    )
    if part is not None:
        return part
    owned = [
        key
        for one, (key, _) in state.home.items()
        if one[0] == namespace and (owner := state.members[one].owner) is not None and owner.name == name
    ]
    homes = list(dict.fromkeys(owned))
    if len(homes) > 1:
        names = first_few(["/".join(key[1:]) for key in homes])
        return f"the pods of {namespace}/{name} wait and run each for itself: give the name of one, such as {names}"
    return homes[0] if homes else _unknown(state, listed, namespace, name)


def _unknown(state: State, listed: Listed, namespace: str, name: str) -> str:
    for one in listed.seen:
        if isinstance(one, PodSeen) and key_of(one.pod) == (namespace, name):
            ours = " or ".join(state.profiles)
            return (
                f"pod {namespace}/{name} has schedulerName {one.pod.spec.scheduler_name}, so Tutti has nothing to say "
                f"of it; Tutti places those with {ours}"
            )
    known = [f"{key[1]}/{key[2]}" for key in state.workloads]
    namesakes = [one for one in known if one.endswith(f"/{name}")][:MOST_NEAR]
    near = namesakes or difflib.get_close_matches(f"{namespace}/{name}", known, n=MOST_NEAR, cutoff=0.5)
    hints = [f"there is {', '.join(near)}"] if near else []
    if name in state.catalog.queues:
        hints.append(f"`tutti queue {name}` shows the ClusterQueue of that name")
    if name in state.cluster.nodes.rows:
        hints.append(f"`tutti drain-check {name}` shows what is on the node of that name")
    return "; ".join([f"there is no Workload, pod group or pod {namespace}/{name} that Tutti places", *hints])
