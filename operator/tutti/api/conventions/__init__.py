"""How a pod says which gang and queue it belongs to: by which conventions, with one answer."""

from tutti.api.conventions.membership import ConventionError, GangMembership, PodTopologyRequest
from tutti.api.conventions.reading import membership_keys, membership_of

__all__ = ["ConventionError", "GangMembership", "PodTopologyRequest", "membership_keys", "membership_of"]
