"""What a kind does beside being stored: defaults, what a writer may change, and validation.

A strategy is handed objects that nobody else holds, so it changes them in place.
"""

from __future__ import annotations

from typing import Any

from tutti_sim.meta import names
from tutti_sim.meta.errors import FieldError

Json = dict[str, Any]


class Strategy:
    """The behaviour of most kinds; others override what differs.

    Attributes:
        generation: whether metadata.generation counts the changes outside metadata and status.
        managed: whether metadata.managedFields is kept.
        create_on_update: whether a PUT to a name that does not exist creates it.
        needs_version: whether a PUT must say which resourceVersion it replaces.
        has_status: whether status is written through its own subresource only.
        keeps_status_on_create: whether a creator may set status.
        answers_object: whether DELETE answers with the object.
        orphans: whether a DELETE without a policy leaves the dependants (batch/v1 Jobs do so for old clients).
    """

    generation = False
    managed = True
    create_on_update = False
    needs_version = False
    has_status = False
    keeps_status_on_create = False
    answers_object = False
    orphans = False

    def default(self, obj: Json) -> None:
        """Fill in what the client left out."""

    def prepare_create(self, obj: Json) -> None:
        """Drop what a creator may not set, and set what only the server does."""
        if self.has_status and not self.keeps_status_on_create:
            obj.pop("status", None)

    def prepare_update(self, new: Json, old: Json) -> None:
        """Put back what an update of the main resource may not change."""
        if self.has_status:
            if "status" in old:
                new["status"] = old["status"]
            else:
                new.pop("status", None)

    def prepare_status(self, new: Json, old: Json) -> None:
        """Put back what an update of the status may not change."""
        for key in set(new) | set(old):
            if key not in ("metadata", "status"):
                if key in old:
                    new[key] = old[key]
                else:
                    new.pop(key, None)
        new["metadata"]["labels"] = old["metadata"].get("labels")
        if new["metadata"]["labels"] is None:
            del new["metadata"]["labels"]

    def prepare_part(self, part: str, new: Json, old: Json) -> None:
        """Put back what an update of another subresource may not change."""
        del part
        self.prepare_update(new, old)

    def check_name(self, name: str) -> str:
        """What is wrong with a name; empty when nothing is."""
        return names.subdomain(name)

    def validate(self, obj: Json) -> list[FieldError]:
        """What is wrong with an object."""
        del obj
        return []

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """What is wrong with a change."""
        del old
        return self.validate(new)

    def validate_status(self, new: Json, old: Json) -> list[FieldError]:
        """What is wrong with a change of status."""
        del new, old
        return []

    def grace(self, obj: Json, asked: int | None) -> int | None:
        """Seconds that an object is given to end; None for kinds that are deleted at once."""
        del obj, asked
        return None

    def warnings(self, obj: Json) -> list[str]:
        """What the writer should know, though it is accepted."""
        del obj
        return []
