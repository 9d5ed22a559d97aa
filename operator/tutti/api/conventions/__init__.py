"""How a pod says which gang and queue it belongs to: one module per convention, one claim as the answer."""

from tutti.api.conventions.claim import Claim, ConventionError, TopologyClaim
from tutti.api.conventions.reading import claim_of, keys_read

__all__ = ["Claim", "ConventionError", "TopologyClaim", "claim_of", "keys_read"]
