"""Strategies of the kinds of resource.k8s.io/v1: defaults, what a writer may change, and validation.

Rules: pkg/registry/resource and pkg/apis/resource/v1/defaults.go, 1.36. Who may write which part
of a status (`resourceclaims/binding`) is a question of rights, which the embedded cluster does not know.
"""

from __future__ import annotations

from tutti_sim.devices import allocations, claims, slices
from tutti_sim.kinds.resource import Strategy
from tutti_sim.meta import Json, clock, names
from tutti_sim.meta.errors import FieldError, forbidden_field, invalid

_UNCHANGED = "field is immutable"


class ResourceClaimStrategy(Strategy):
    """Claims, whose specification never changes."""

    answers_object = True
    has_status = True

    def default(self, obj: Json) -> None:
        """Fill in how devices are counted."""
        claims.defaults(obj.setdefault("spec", {}))
        for result in _results(obj):
            claims.toleration_defaults(result)
        for device in (obj.get("status") or {}).get("devices", ()):
            device.setdefault("conditions", None)

    def prepare_create(self, obj: Json) -> None:
        """Nothing is allocated yet."""
        obj["status"] = {}

    def prepare_status(self, new: Json, old: Json) -> None:
        """What drivers said of devices goes with these."""
        super().prepare_status(new, old)
        new.setdefault("status", {})
        allocations.forget_devices(new, old)

    def validate(self, obj: Json) -> list[FieldError]:
        """What is asked for can be asked for."""
        return claims.spec_faults(obj["spec"], "spec")

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """What is asked for stays."""
        return [] if new["spec"] == old["spec"] else [invalid("spec", new["spec"], _UNCHANGED)]

    def validate_status(self, new: Json, old: Json) -> list[FieldError]:
        """An allocation stays what it is until it is taken away as a whole."""
        return allocations.status_faults(new, old)


def _results(claim: Json) -> list[Json]:
    found: list[Json] = (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get(
        "results"
    ) or []
    return found


class ClaimTemplateStrategy(Strategy):
    """Templates of claims, which never change either."""

    answers_object = True

    def default(self, obj: Json) -> None:
        """As for the claims made from them."""
        template = obj.setdefault("spec", {})
        template.setdefault("metadata", {})
        claims.defaults(template.setdefault("spec", {}))

    def validate(self, obj: Json) -> list[FieldError]:
        """What is made from it can be asked for."""
        template = obj["spec"]
        return [*_labels(template["metadata"]), *claims.spec_faults(template["spec"], "spec.spec")]

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """What is made from it stays the same."""
        return [] if new["spec"] == old["spec"] else [invalid("spec", new["spec"], _UNCHANGED)]


_OF_OBJECTS = ("name", "generateName", "namespace", "uid", "finalizers", "ownerReferences")


def _labels(meta: Json) -> list[FieldError]:
    """What is wrong with the metadata of what is made (ValidateTemplateObjectMeta)."""
    faults = [
        invalid("spec.metadata.labels", key, why) for key in meta.get("labels", {}) if (why := names.qualified(key))
    ]
    values = meta.get("labels", {}).values()
    faults += [invalid("spec.metadata.labels", value, why) for value in values if (why := names.label_value(value))]
    return faults + [
        forbidden_field(f"spec.metadata.{name}", "cannot be set") for name in _OF_OBJECTS if meta.get(name)
    ]


class DeviceClassStrategy(Strategy):
    """Classes of devices."""

    answers_object = True
    generation = True

    def default(self, obj: Json) -> None:
        """The specification is always shown."""
        obj.setdefault("spec", {})

    def validate(self, obj: Json) -> list[FieldError]:
        """Its selectors compile, and what it hands to drivers can be handed over."""
        return claims.class_faults(obj["spec"], "spec")


class ResourceSliceStrategy(Strategy):
    """What drivers publish."""

    answers_object = True
    generation = True

    def warnings(self, obj: Json, pattern: bytes) -> list[str]:
        """Drivers that are not named as everybody names them."""
        del pattern
        driver = obj.get("spec", {}).get("driver", "")
        text = f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters'
        return [text] if driver != driver.lower() else []

    def default(self, obj: Json) -> None:
        """A taint says since when."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("driver", "")
        spec.setdefault("pool", {"name": "", "generation": 0, "resourceSliceCount": 0})
        for device in spec.get("devices", ()):
            for taint in device.get("taints", ()):
                if not taint.get("timeAdded"):
                    taint["timeAdded"] = clock.now()

    def validate(self, obj: Json) -> list[FieldError]:
        """What it says is neither too much nor contradicts itself."""
        return slices.slice_faults(obj["spec"], "spec")

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """It stays the same driver's, in the same pool and at the same node."""
        return slices.slice_faults(new["spec"], "spec", old["spec"])


class TaintRuleStrategy(Strategy):
    """Taints that administrators put on devices."""

    generation = True
    has_status = True

    def default(self, obj: Json) -> None:
        """A taint says since when."""
        taint = obj.setdefault("spec", {}).setdefault("taint", {})
        if not taint.get("timeAdded"):
            taint["timeAdded"] = clock.now()

    def validate(self, obj: Json) -> list[FieldError]:
        """It selects by names that devices may have, and puts on them what can be tolerated."""
        return slices.taint_rule_faults(obj["spec"], "spec")

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:  # noqa: ARG002 - as all strategies
        """So does what it is changed to."""
        return slices.taint_rule_faults(new["spec"], "spec")
