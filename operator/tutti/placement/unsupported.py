"""What a pod may ask for and Tutti cannot weigh yet: such a pod waits, and says so.

Placing it as if the constraint were not there would be worse than not placing it.
"""

from __future__ import annotations

from tutti.api.core import PodSpec


def unsupported(spec: PodSpec) -> list[str]:
    """Return the constraints of a pod that no filter here knows, by their field; empty where there are none."""
    return ["spec.resourceClaims"] if spec.resource_claims else []
