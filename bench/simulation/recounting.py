"""What is requested of each node, computed anew from who is there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.cluster import Cluster


def recounted(cluster: Cluster) -> NDArray[np.int64]:
    """What `nodes.requested` should be: int64[rows, resources]."""
    out = np.zeros_like(cluster.nodes.requested)
    rows = cluster.nodes.rows
    for record in cluster.pods.values():
        if record.place in rows:
            out[rows[record.place]] += cluster.nodes.vector(record.held)
    for (node, _), pod_class in cluster.held.all():
        out[rows[node]] += cluster.nodes.vector(pod_class.requests)
    return out
