"""Strategies of networking and discovery kinds, which are stored and shown but move no packet."""

from __future__ import annotations

from typing import Any

from tutti_sim.kinds.strategy import Strategy

Json = dict[str, Any]


class NetworkPolicyStrategy(Strategy):
    """Network policies: what they apply to follows from what they hold."""

    generation = True

    def default(self, obj: Json) -> None:
        """Policies are about ingress, and about egress if they have rules for it."""
        spec = obj.setdefault("spec", {})
        if "policyTypes" not in spec:
            spec["policyTypes"] = ["Ingress", "Egress"] if "egress" in spec else ["Ingress"]
        for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
            for port in rule.get("ports", ()):
                port.setdefault("protocol", "TCP")


class EndpointSliceStrategy(Strategy):
    """Endpoint slices."""

    generation = True

    def default(self, obj: Json) -> None:
        """Ports are named and speak TCP; endpoints show their conditions."""
        for port in obj.get("ports", ()):
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")
        for endpoint in obj.get("endpoints", ()):
            endpoint.setdefault("conditions", {})


class EndpointsStrategy(Strategy):
    """Endpoints, the older form."""

    def default(self, obj: Json) -> None:
        """Ports speak TCP."""
        for subset in obj.get("subsets", ()):
            for port in subset.get("ports", ()):
                port.setdefault("protocol", "TCP")
