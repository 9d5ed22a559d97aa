"""Strategies of dynamic resource allocation (resource.k8s.io/v1)."""

from __future__ import annotations

from typing import Any

from tutti_sim.kinds.strategy import Strategy

Json = dict[str, Any]


def _default_requests(spec: Json) -> None:
    for request in spec.get("devices", {}).get("requests", ()):
        for one in (request.get("exactly"), *request.get("firstAvailable", ())):
            if one is not None:
                one.setdefault("allocationMode", "ExactCount")
                if one["allocationMode"] == "ExactCount":
                    one.setdefault("count", 1)


class ClaimStrategy(Strategy):
    """Resource claims: one device of a class, unless more are asked for."""

    has_status = True

    def default(self, obj: Json) -> None:
        """Fill in how devices are counted."""
        _default_requests(obj.setdefault("spec", {}))

    def prepare_create(self, obj: Json) -> None:
        """Nothing is allocated yet."""
        obj["status"] = {}


class ClaimTemplateStrategy(Strategy):
    """Templates of resource claims."""

    def default(self, obj: Json) -> None:
        """As for the claims made from them."""
        template = obj.setdefault("spec", {})
        template.setdefault("metadata", {})
        _default_requests(template.setdefault("spec", {}))
