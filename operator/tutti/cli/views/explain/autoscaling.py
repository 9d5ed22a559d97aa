"""What an autoscaler makes of pods that lack a node: it packs them one by one, and knows nothing else of them.

cluster-autoscaler and Karpenter put each pending pod on a node that kube-scheduler's filters allow, and add nodes for
the rest (cluster-autoscaler 1.36, core/podlistprocessor and simulator; Karpenter, provisioning/scheduling). Where pods
fit singly and their gang does not, for what only Tutti knows, no node is added, and the gang would wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tutti.api.core import PodSpec
from tutti.api.messages import agreeing, counted
from tutti.cli.views.explain.gates import ways_to_count
from tutti.cluster.classes import Feature
from tutti.engine.admission import AdmissionState
from tutti.engine.admission.attempt import ask_for
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.placement.gang import Ask, place_ask
from tutti.placement.profile import DEFAULT_PROFILE
from tutti.quota.flavors import Queue


def what_autoscalers_see(
    state: AdmissionState, queue: Queue | None, needs: Sequence[PodSetRequest], why: Explanation
) -> tuple[str, ...]:
    """Say where an autoscaler goes wrong about pods that lack a node, and what would put it right; often nothing.

    Args:
        state: What is known.
        queue: Their ClusterQueue; None where they need none.
        needs: The pods that want nodes.
        why: What they wait for.
    """
    unasked = why.pod_reason != "Unschedulable" or state.configuration.autoscaler == "None"
    if unasked or not state.cluster.nodes.count:
        return ()
    pods = sum(len(need.members) for need in needs)
    fits, hidden = fit_singly(state, needs), list(_hidden(state, queue, needs))
    out = []
    if pods and fits == pods:
        they = f"all {pods} pods fit" if pods > 1 else "the pod fits"
        unknown = f"that {'; '.join(hidden)}" if hidden else "what stands in the way"
        out.append(f"autoscaler sees room: {they} singly, so it adds no nodes. It does not know {unknown}")
    elif fits and hidden and any(need.topology is not None and need.topology.required for need in needs):
        rest = counted(pods - fits, "pod")
        out.append(
            f"autoscaler sees room: {fits} of {pods} pods fit singly, so it adds nodes for {rest} only. "
            f"It does not know that {'; '.join(hidden)}"
        )
    return (*out, *_advice(state, queue, needs))


def fit_singly(state: AdmissionState, needs: Sequence[PodSetRequest]) -> int:
    """Return how many of the pods that exist find a node one by one, by kube-scheduler's filters alone."""
    nodes, found = state.cluster.nodes, 0
    with state.cluster.transaction() as transaction:
        for need in needs:
            ask = Ask(need.pod_class, 0, len(need.members))
            rows = place_ask(nodes, transaction, ask, DEFAULT_PROFILE)
            found += 0 if rows is None else len(rows)
    return found


def _hidden(state: AdmissionState, queue: Queue | None, needs: Sequence[PodSetRequest]) -> Iterator[str]:
    """Yield what of these pods an autoscaler does not know."""
    levels = dict.fromkeys(
        level for need in needs if need.topology is not None for level in need.topology.required[-1:]
    )
    for level in levels:
        yield f"they must share one {level} (have nodes added in one {level}, or ask for it as Preferred)"
    for need in needs:
        if need.topology is not None and need.topology.slices and not levels:
            level = need.topology.slices[-1].level
            yield f"slices of them must share one {level} (have nodes added in one {level})"
            break
    for flavor, _ in _unnamed_labels(state, queue, needs):
        yield f"flavor {flavor} keeps them to nodes with its labels"
    if any(one.node_resource_topology_match is not None for one in state.configuration.profiles):
        yield "a pod has to fit into NUMA zones (have nodes added whose zones are large enough)"
    if any(need.pod_class.features & Feature.CARDS for need in needs):
        yield "no node offers what is asked of shared GPUs, so it adds none for that (have nodes added by hand)"
    if state.configuration.extenders:
        yield "an extender has a say (see what it answers)"


def _advice(state: AdmissionState, queue: Queue | None, needs: Sequence[PodSetRequest]) -> Iterator[str]:
    for flavor, labels in _unnamed_labels(state, queue, needs):
        said = ", ".join(f"{key}: {value}" for key, value in labels)
        labels_are = agreeing(len(labels), ("node label", "node labels"))
        yield (
            f"give the pods the {labels_are} of flavor {flavor} as nodeSelector ({said}): an autoscaler knows no "
            "flavors, and may grow another pool"
        )


def _unnamed_labels(
    state: AdmissionState, queue: Queue | None, needs: Sequence[PodSetRequest]
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each flavor that the pods may be counted in, with those of its node labels that they do not select."""
    seen: set[str] = set()
    for given in ways_to_count(state, queue, needs):
        for need, one in zip(needs, given, strict=True):
            name = ", ".join(dict.fromkeys(one.values()))
            labels = ask_for(state, need, one).where.node_labels
            lacks = [label for label in labels if not _selects(need.pod_class.spec, *label)]
            if lacks and name not in seen:
                seen.add(name)
                yield name, lacks


def _selects(spec: PodSpec, key: str, value: str) -> bool:
    """Whether a pod goes only to nodes with a label, by its nodeSelector or by each of its required terms."""
    if spec.node_selector.get(key) == value:
        return True
    near = None if spec.affinity is None else spec.affinity.node_affinity
    if near is None or near.required is None or not near.required.node_selector_terms:
        return False
    return all(
        any((one.key, one.operator, one.values) == (key, "In", [value]) for one in term.match_expressions)
        for term in near.required.node_selector_terms
    )
