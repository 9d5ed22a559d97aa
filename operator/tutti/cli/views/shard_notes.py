"""What `tutti queue` says of shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tutti.cli.views.what_if import ObservedCluster

if TYPE_CHECKING:
    from tutti.cli.views.queues import Branch


def in_shards(branch: Branch, asked: ObservedCluster) -> Branch:
    """Return a branch whose ClusterQueues say which shard has them, where there are shards."""
    shard = asked.shard_of("ClusterQueue", branch.name) if branch.kind == "ClusterQueue" else ""
    children = tuple(in_shards(one, asked) for one in branch.children)
    notes = (*branch.notes, f"shard {shard}") if shard else branch.notes
    return msgspec.structs.replace(branch, notes=notes, children=children)
