"""Resources by name or wildcard: `nvidia.com/*` stands for each extended resource of that domain that a pod asks for.

So a profile need not name every MIG profile (`nvidia.com/mig-1g.5gb`, ...) that a cluster has or will have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

STAR = "*"

Weighted = tuple[tuple[str, int], ...]


def expand(resources: Weighted, requests: Mapping[str, int]) -> Weighted:
    """Return names and weights with each wildcard replaced by what it stands for among the requests.

    A resource that has an entry of its own keeps that; of several wildcards the longest counts. Only what is asked
    for can matter: an extended resource is scored for pods that ask for it only.
    """
    if not any(name.endswith(STAR) for name, _ in resources):
        return resources
    own = dict(resources)
    out = [(name, weight) for name, weight in resources if not name.endswith(STAR)]
    for name, amount in requests.items():
        if amount <= 0 or name in own:
            continue
        found = longest_match(name, own)
        if found:
            out.append((name, own[found]))
    return tuple(out)


def longest_match(name: str, patterns: Iterable[str]) -> str:
    """Return the longest wildcard that stands for an extended resource; "" where none does."""
    if "/" not in name:
        return ""
    matching = [one for one in patterns if one.endswith(STAR) and name.startswith(one[:-1])]
    return max(matching, key=len, default="")
