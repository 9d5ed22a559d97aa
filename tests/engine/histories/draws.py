"""What random histories draw from: names, where these are, what queues say of preemption, and how often what is rare comes."""

from __future__ import annotations

from hypothesis import strategies as st

# A gang keeps its queue: what has been admitted by one is not moved to another.
QUEUE_OF = {"g0": "", "g1": "q1", "g2": "q3", "w0": "q2", "w1": "", "a0": "", "a1": "q2", "a2": "q4"}
GANGS = st.sampled_from(["g0", "g1", "g2"])
WORKLOADS = st.sampled_from(["w0", "w1"])
ANNOTATED = {"a0": 2, "a1": 3, "a2": 2}
NODES = st.sampled_from([f"n{i}" for i in range(5)])
RACK_OF = {"n0": "r0", "n1": "r1", "n2": "r0", "n3": "r1", "n4": "r1"}
NEAR = {"g0": {"schedulingConstraints": {"topology": [{"key": "rack"}]}}}
QUEUES = st.sampled_from(["", "", "q1", "q2", "q3", "q4"])
KINDS = st.sampled_from(["a", "b"])
CLASSES = {"high": 2, "usual": 1}
RARELY = st.sampled_from([False] * 5 + [True])
OFTEN = st.sampled_from([True] * 5 + [False])
RUNTIME = 8
WITHIN = st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])
RECLAIM = st.sampled_from(["Never", "LowerPriority", "Any"])
BORROW = st.sampled_from([{}, {"borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 1}}])
MINIMUM = st.sampled_from([{}, {}, {"minimumRuntimeSeconds": RUNTIME}])
POLICIES = st.builds(
    lambda within, reclaim, borrow, minimum: {
        "withinClusterQueue": within,
        "reclaimWithinCohort": reclaim,
        **(borrow if reclaim != "Never" else {}),
        **minimum,
    },
    WITHIN,
    RECLAIM,
    BORROW,
    MINIMUM,
)
