"""Who is next: higher priority first, then the older, then by name, so that the order is total; a plugin goes before.

Source: Kueue's queue order without its options, and kube-scheduler's PrioritySort.
"""

from __future__ import annotations

OrderKey = tuple[float, int, float, str, str, str]


def order_key(priority: int, created: float, identity: tuple[str, str, str], *, rank: float = 0.0) -> OrderKey:
    """Return a key that sorts what is next first.

    Args:
        priority: Higher goes first.
        created: Unix seconds; earlier goes first.
        identity: Kind, namespace and name, to tell equals apart.
        rank: What a sort plugin says; less goes first, whatever the priority.
    """
    return (rank, -priority, created, *identity)
