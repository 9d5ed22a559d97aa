"""The part of a cluster autoscaler in engine tests: requests as a server keeps them, and what it answers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tutti.api.provisioning import is_the_same, read_request, request_documents, same_placement
from tutti.engine.records.decisions import CreateProvisioning, DeleteProvisioning
from tutti.engine.records.observations import AnyObservation
from tutti.engine.records.provisioning import (
    ProvisioningFollowed,
    ProvisioningGone,
    ProvisioningSeen,
    ProvisioningWritten,
)

if TYPE_CHECKING:
    from tests.engine.world import World


class Autoscaler:
    """Requests and templates by namespace and name.

    Attributes:
        lost: Whether what is written is done, and neither seen nor answered: the process dies.
        unseen: Whether what is made is answered, and not seen yet: the watch is behind.
        refuses: Why nothing can be written; "" where it can.
        halfway: Why no request can be made once its templates are; "" where it can.
        most_seen: How many requests have existed at once for one workload.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.served = False
        self.requests: dict[tuple[str, str], dict[str, Any]] = {}
        self.templates: dict[tuple[str, str], dict[str, Any]] = {}
        self.made: list[str] = []
        self.lost = False
        self.unseen = False
        self.refuses = ""
        self.halfway = ""
        self._uids = 0

    def serve(self, *, served: bool = True) -> None:
        """The kind is served from now on, or no longer."""
        self.served = served
        self._world.tell(ProvisioningFollowed(served))

    def all(self) -> list[AnyObservation]:
        """What a new process is told."""
        return [ProvisioningSeen(read_request(raw)) for raw in self.requests.values()]

    def write(self, decision: CreateProvisioning | DeleteProvisioning) -> None:
        """Carry a decision out as the operator does."""
        where = (decision.namespace, decision.name)
        if isinstance(decision, DeleteProvisioning):
            self._remove(decision)
            return
        answer = (*where, decision.owner[:2])
        if self.refuses:
            self._world.tell(ProvisioningWritten(*answer, problem=self.refuses))
            return
        how = {"class_name": decision.class_name, "parameters": decision.parameters, "pods": decision.pods}
        templates, request = request_documents(*where, decision.owner, **how)
        for document, pods in zip(templates, decision.pods, strict=True):
            key = (decision.namespace, document["metadata"]["name"])
            if not same_placement(self.templates.setdefault(key, document), pods):
                self._world.tell(ProvisioningWritten(*answer, problem=f"PodTemplate {key[1]} is taken", final=True))
                return
        if self.halfway:
            if not self.lost:
                self._world.tell(ProvisioningWritten(*answer, problem=self.halfway))
            return
        if where in self.requests and not is_the_same(self.requests[where], request):
            self._world.tell(ProvisioningWritten(*answer, problem="the name is taken", final=True))
            return
        if where not in self.requests:
            self._uids += 1
            self.made.append(decision.name)
            request["metadata"] = {**request["metadata"], "uid": f"request-{self._uids}", "generation": 1}
            self.requests[where] = request
        if not self.lost:
            if not self.unseen:
                self._world.tell(ProvisioningSeen(read_request(self.requests[where])))
            self._world.tell(ProvisioningWritten(*answer))

    def _remove(self, decision: DeleteProvisioning) -> None:
        where = (decision.namespace, decision.name)
        if self.refuses:
            self._world.tell(ProvisioningWritten(*where, uid=decision.uid, problem=self.refuses))
            return
        found = self.requests.get(where)
        if not decision.uid:
            for key, one in list(self.templates.items()):
                owners = [ref["uid"] for ref in one["metadata"]["ownerReferences"]]
                if key[1].startswith(f"{decision.name}-") and decision.workload in owners:
                    del self.templates[key]
        elif found is not None and found["metadata"]["uid"] == decision.uid:
            self.delete(decision.name, decision.namespace)
            for key in [key for key in self.templates if key[1].startswith(f"{decision.name}-")]:
                del self.templates[key]
        if not self.lost:
            self._world.tell(ProvisioningWritten(*where, uid=decision.uid))

    # what others do

    def names(self) -> list[str]:
        """The requests that there are."""
        return [name for _, name in self.requests]

    def put(self, raw: dict[str, Any]) -> None:
        """Have a request be as given, whoever wrote it."""
        meta = raw["metadata"]
        self.requests[meta["namespace"], meta["name"]] = raw
        self._world.tell(ProvisioningSeen(read_request(raw)))

    def delete(self, name: str, namespace: str = "default") -> None:
        """A request is gone."""
        del self.requests[namespace, name]
        if not self.lost:
            self._world.tell(ProvisioningGone(namespace, name))

    def say(self, kind: str, name: str = "", *, message: str = "", so: str = "True", **details: str) -> None:
        """Set a condition of a request, of the only one where none is named."""
        name = name or self.names()[-1]
        raw = self.requests["default", name]
        since = datetime.fromtimestamp(self._world.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        told = {"type": kind, "status": so, "reason": kind, "message": message, "lastTransitionTime": since}
        status = raw.get("status", {})
        others = [one for one in status.get("conditions", []) if one["type"] != kind]
        status = {**status, "conditions": [*others, told]}
        if details:
            status["provisioningClassDetails"] = details
        self.put({**raw, "status": status})
