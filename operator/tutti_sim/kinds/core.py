"""Strategies of the core kinds other than pods."""

from __future__ import annotations

import base64
from ipaddress import ip_interface

from tutti_sim.kinds.affinity import check_taints
from tutti_sim.kinds.containers import key_faults
from tutti_sim.kinds.resource import Strategy
from tutti_sim.meta import Json, names
from tutti_sim.meta.amounts import amount
from tutti_sim.meta.checks import check_text, finalizer_faults
from tutti_sim.meta.errors import FieldError, forbidden_field, invalid, required, too_long, unsupported

IMMUTABLE = "field is immutable"
LARGEST = 1024 * 1024


def _networks(networks: list[str], at: str) -> list[FieldError]:
    """What is wrong with the networks of a node: one of each family."""
    errors, families, unread = list[FieldError](), list[int](), ""
    for index, text in enumerate(networks):
        try:
            families.append(ip_interface(text if "/" in text else "").version)
        except ValueError:
            errors.append(invalid(f"{at}[{index}]", text, CIDR_RULE))
            unread = unread or f"invalid CIDR[{index}]: <nil> (invalid CIDR address: {text})"
    if len(networks) > 1 and unread:
        told = f"Internal error: invalid PodCIDRs. failed to check with dual stack with error:{unread}"
        errors.append(FieldError("InternalError", at, told))
    if len(networks) > 1 and sorted(families) != [4, 6]:
        errors.append(invalid(at, networks, "may specify no more than one CIDR for each IP family"))
    return errors


CIDR_RULE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


class NamespaceStrategy(Strategy):
    """Namespaces: labelled with their name, and kept until their own finalizers are gone."""

    has_status = True
    answers_object = True

    def default(self, obj: Json) -> None:
        """The label that every namespace carries."""
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name

    def prepare_create(self, obj: Json) -> None:
        """A new namespace is active."""
        self.default(obj)
        finalizers = obj.get("spec", {}).get("finalizers", [])
        obj["spec"] = {"finalizers": [*finalizers, *(["kubernetes"] if "kubernetes" not in finalizers else [])]}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, new: Json, old: Json) -> None:
        """Finalizers go through the finalize subresource only."""
        super().prepare_update(new, old)
        new["spec"] = old.get("spec", {})

    def validate(self, obj: Json) -> list[FieldError]:
        """Finalizers are named as those of any object."""
        finalizers = obj.get("spec", {}).get("finalizers", ())
        return [error for one in finalizers for error in check_text(one, "spec.finalizers", finalizer_faults)]

    def validate_status(self, new: Json, old: Json) -> list[FieldError]:
        """It is active until it is deleted, and terminating from then on."""
        gone, phase = bool(old["metadata"].get("deletionTimestamp")), new.get("status", {}).get("phase", "")
        wanted = "Terminating" if gone else "Active"
        if phase in ("", wanted):
            return []
        text = f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if gone else ''}empty"
        return [invalid("status.Phase", phase, text)]

    def check_name(self, name: str) -> list[str]:
        """A DNS label."""
        return names.label_faults(name)


class NodeStrategy(Strategy):
    """Nodes: a kubelet that registers itself brings its status."""

    has_status = True
    keeps_status_on_create = True

    def default(self, obj: Json) -> None:
        """Allocatable is capacity, unless said otherwise; the first of its networks is its network."""
        spec = obj.setdefault("spec", {})
        if spec.get("podCIDR"):
            spec.setdefault("podCIDRs", [spec["podCIDR"]])
        elif spec.get("podCIDRs"):
            spec["podCIDR"] = spec["podCIDRs"][0]
        spec.pop("configSource", None)  # kubelets have not taken their configuration from here since 1.24
        status = obj.setdefault("status", {})
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])
        for condition in status.get("conditions", ()):
            condition.setdefault("lastHeartbeatTime", None)
            condition.setdefault("lastTransitionTime", None)
        status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
        status.setdefault("nodeInfo", {})
        for field in [
            "machineID",
            "systemUUID",
            "bootID",
            "kernelVersion",
            "osImage",
            "containerRuntimeVersion",
            "kubeletVersion",
            "kubeProxyVersion",
            "operatingSystem",
            "architecture",
        ]:
            status["nodeInfo"].setdefault(field, "")

    def warnings(self, obj: Json, pattern: bytes) -> list[str]:
        """Fields that nobody reads any more."""
        del pattern
        text = "spec.externalID: this field is deprecated, and is unused by Kubernetes"
        return [text] if obj.get("spec", {}).get("externalID") else []

    def validate(self, obj: Json) -> list[FieldError]:
        """Check taints and amounts."""
        spec = obj.get("spec", {})
        errors = check_taints(spec.get("taints", []), "metadata.taints")
        for field in ("capacity", "allocatable"):
            errors.extend(
                invalid(f"status.{field}.{name}", value, "must be greater than or equal to 0")
                for name, value in obj.get("status", {}).get(field, {}).items()
                if amount(value) < 0
            )
        return [*errors, *_networks(spec.get("podCIDRs", []), "spec.podCIDRs")]

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """A provider's id stays once it is set."""
        errors = self.validate(new)
        before, after = old.get("spec", {}), new.get("spec", {})
        for field in ("providerID", "podCIDR"):
            if before.get(field) and after.get(field) != before[field]:
                errors.append(
                    forbidden_field(
                        f"spec.{field}", "node updates may not change " + field + ' except from "" to valid'
                    )
                )
        return errors


class ConfigMapStrategy(Strategy):
    """Config maps, which may be made immutable."""

    data_fields: tuple[str, ...] = ("data", "binaryData")

    def validate(self, obj: Json) -> list[FieldError]:
        """Check keys, of which each is in one place, and how much there is."""
        errors: list[FieldError] = []
        other = obj.get("binaryData", {})
        for field in self.data_fields:
            for key in sorted(obj.get(field, {})):
                errors.extend(check_text(key, f"{field}[{key}]", key_faults))
                if field == "data" and key in other:
                    text = "duplicate of key present in binaryData"
                    errors.append(invalid(f"data[{key}]", key, text))
        size = sum(len(value.encode()) for value in obj.get("data", {}).values())
        if size > LARGEST:
            errors.append(too_long("[]" if "binaryData" in self.data_fields else "data", LARGEST))
        return errors

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """Nothing changes once immutable is set."""
        errors = self.validate(new)
        if old.get("immutable"):
            text = "field is immutable when `immutable` is set"
            if not new.get("immutable"):
                errors.append(forbidden_field("immutable", text))
            errors.extend(
                forbidden_field(field, text) for field in self.data_fields if new.get(field) != old.get(field)
            )
        return errors


class SecretStrategy(ConfigMapStrategy):
    """Secrets: plain strings become base64, and the type stays."""

    data_fields = ("data",)

    def default(self, obj: Json) -> None:
        """Opaque, and stringData folded into data."""
        obj.setdefault("type", "Opaque")
        plain = obj.pop("stringData", None)
        if plain:
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
            obj["data"] = {**obj.get("data", {}), **encoded}

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """The type is immutable."""
        errors = super().validate_update(new, old)
        if new.get("type") != old.get("type"):
            errors.append(invalid("type", new.get("type"), IMMUTABLE))
        return errors


class ServiceStrategy(Strategy):
    """Services, with cluster addresses that nothing routes."""

    create_on_update = True
    has_status = True
    answers_object = True

    def __init__(self) -> None:
        self._last = 0

    def default(self, obj: Json) -> None:
        """Fill in what core/v1 defaults."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("internalTrafficPolicy", "Cluster")
        for port in spec.get("ports", ()):
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))

    def prepare_create(self, obj: Json) -> None:
        """Assign an address."""
        spec = obj["spec"]
        if spec["type"] != "ExternalName" and "clusterIP" not in spec:
            self._last += 1
            spec["clusterIP"] = f"10.96.{self._last >> 8 & 255}.{self._last & 255}"
        if spec.get("clusterIP"):
            spec.setdefault("clusterIPs", [spec["clusterIP"]])
            spec.setdefault("ipFamilies", ["IPv4"])
            spec.setdefault("ipFamilyPolicy", "SingleStack")
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, new: Json, old: Json) -> None:
        """The assigned address stays."""
        super().prepare_update(new, old)
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if field in old["spec"]:
                new["spec"].setdefault(field, old["spec"][field])

    def check_name(self, name: str) -> list[str]:
        """A DNS label."""
        return names.label_faults(name)

    def validate(self, obj: Json) -> list[FieldError]:
        """Check ports and type."""
        spec = obj["spec"]
        errors: list[FieldError] = []
        if spec["type"] not in ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"):
            errors.append(
                unsupported("spec.type", spec["type"], ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"))
            )
        if not spec.get("ports") and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
            errors.append(required("spec.ports"))
        for index, port in enumerate(spec.get("ports", ())):
            if not 1 <= port.get("port", 0) <= 65535:  # noqa: PLR2004 - the range of ports
                errors.append(
                    invalid(f"spec.ports[{index}].port", port.get("port", 0), "must be between 1 and 65535, inclusive")
                )
        return errors

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """The address is immutable."""
        errors = self.validate(new)
        before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
        if before and before != after and new["spec"]["type"] != "ExternalName":
            errors.append(invalid("spec.clusterIPs[0]", [after], "may not change once set"))
        return errors


class ServiceAccountStrategy(Strategy):
    """Service accounts; DELETE answers with the object."""

    answers_object = True
