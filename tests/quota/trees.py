"""Random quota trees, and random holders in them, for tests of what must always hold."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.drawing import examples
from tutti.quota.policy import Preemptible, PreemptionPolicy
from tutti.quota.snapshot import AdmittedWorkload, Demand, Snapshot
from tutti.quota.tree import Quota, QuotaTree

unhurried = examples(60)
"""Enough examples, however busy the machine is."""

PAIRS = (("f0", "cpu"), ("f1", "cpu"), ("f0", "gpu"))
LIMITS = st.none() | st.integers(0, 8)


@st.composite
def quotas(draw, *, limited=True):
    limits = LIMITS if limited else st.none()
    return {what: Quota(draw(st.integers(0, 10)), draw(limits), draw(limits)) for what in PAIRS if draw(st.booleans())}


@st.composite
def trees(draw):
    """A forest of up to four cohorts and one to five queues."""
    cohorts = {}
    for index in range(draw(st.integers(0, 4))):
        parent = draw(st.sampled_from(["", *cohorts]))
        cohorts[f"co{index}"] = (parent, draw(quotas(limited=bool(parent))))
    names = [f"q{index}" for index in range(draw(st.integers(1, 5)))]
    queues = {name: (draw(st.sampled_from(["", *cohorts, *cohorts])), draw(quotas())) for name in names}
    weights = st.sampled_from((0, 500, 1000, 2000))
    return QuotaTree(
        queues,
        cohorts,
        queue_weights={name: draw(weights) for name in queues},
        cohort_weights={name: draw(weights) for name in cohorts},
    )


usages = st.dictionaries(st.sampled_from(PAIRS), st.integers(0, 6), min_size=1, max_size=2)

leave = st.sampled_from(
    (Preemptible.ANY, Preemptible.LOWER_PRIORITY, Preemptible.LOWER_OR_NEWER_EQUAL_PRIORITY, Preemptible.NEVER)
)
generous = st.builds(PreemptionPolicy, leave, leave, st.booleans(), st.none() | st.integers(-1, 2))


@st.composite
def full_trees(draw):
    """One cohort tree of two to four queues that all know the same pairs, with little quota."""
    few = st.builds(Quota, st.integers(0, 4), st.none() | st.integers(1, 6), st.none() | st.integers(0, 3))
    pairs = PAIRS[: draw(st.integers(1, 2))]
    cohorts = {"root": ("", {what: Quota(draw(st.integers(0, 4))) for what in pairs})}
    for index in range(draw(st.integers(0, 2))):
        cohorts[f"co{index}"] = (draw(st.sampled_from(sorted(cohorts))), {what: draw(few) for what in pairs})
    names = [f"q{index}" for index in range(draw(st.integers(2, 4)))]
    queues = {name: (draw(st.sampled_from(sorted(cohorts))), {what: draw(few) for what in pairs}) for name in names}
    weights = {name: draw(st.sampled_from((0, 500, 1000, 2000))) for name in (*queues, *cohorts)}
    return QuotaTree(queues, cohorts, queue_weights=weights, cohort_weights=weights)


@st.composite
def contests(draw):
    """A snapshot filled until nothing fits without exceeding a limit, and a demand that does not fit either."""
    tree = draw(full_trees())
    names = sorted(tree.queues)
    snapshot = Snapshot(tree, {name: draw(generous) for name in names})
    for index in range(draw(st.integers(4, 12))):
        node = tree.queues[draw(st.sampled_from(names))]
        usage = {what: min(draw(st.integers(1, 3)), max(0, node.available(what))) for what in node.quotas}
        if any(usage.values()):
            snapshot.add(
                AdmittedWorkload(
                    f"h{index}",
                    node.name,
                    usage,
                    priority=draw(st.integers(-1, 2)),
                    queued_at=draw(st.integers(0, 5)),
                    reserved_at=draw(st.integers(0, 5)),
                    evicted=draw(st.integers(0, 9)) == 0,
                    uid=str(index),
                )
            )
    node = tree.queues[draw(st.sampled_from(names))]
    wanted = {what: min(draw(st.integers(1, 8)), node.potential(what)) for what in node.quotas}
    contested = frozenset(what for what, n in wanted.items() if n > node.available(what))
    return snapshot, Demand(node.name, wanted, contested, draw(st.integers(0, 3)), draw(st.integers(0, 5)))


def state(snapshot):
    """All that a snapshot holds, to compare."""
    tree = snapshot.tree
    nodes = {**tree.queues, **{f"cohort {name}": node for name, node in tree.cohorts.items()}}
    used = {name: {what: n for what, n in node.usage.items() if n} for name, node in nodes.items()}
    return used, {name: {one.name for one in snapshot.holders(name)} for name in tree.queues}
