"""Which objects of `manifests/` are in which template, and under which value."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

from release.chart.drawing import Drawing, documents, from_values, indented, items_of, when
from release.chart.sources import Json, Sources, crds, rights_components

DASHBOARD = "files/dashboard.json"
CONFIGURATION = "files/tutti.yaml"
_LABELS = '{{- include "tutti.labels" . | nindent 4 }}\n'
_SELF_SIGNED = 'and .Values.webhook.enabled (eq .Values.webhook.certificate "SelfSigned")'
_CERT_MANAGER = 'and .Values.webhook.enabled (eq .Values.webhook.certificate "CertManager")'

_PAGES = ".Values.webView.enabled"

Change = Callable[[Json, Drawing], None]


def templates(sources: Sources) -> dict[str, str]:
    """The text of each template that is made, by its path in the chart."""
    made = {
        "crds": _crds(),
        "service-account": _drawn(sources.objects("base/service-account.yaml"), _account),
        "cluster-role": _cluster_role(sources),
        "lease-role": _lease_role(sources),
        "user-roles": when(".Values.rbac.userRoles", _drawn(sources.objects("base/user-roles.yaml"))),
        "viewer": when(".Values.rbac.viewer", _drawn(sources.objects("viewer.yaml"))),
        "check-controller": when(".Values.rbac.checkController", _drawn(sources.objects("check-controller.yaml"))),
        "configuration": _configuration(),
        "deployment": _deployment(sources),
        "disruption-budget": when(".Values.highAvailability.enabled", _disruption_budget(sources)),
        "service": _service(sources),
        "network-policy": when(".Values.networkPolicy.enabled", _network_policy(sources)),
        "webhook-network-policy": when(
            "and .Values.networkPolicy.enabled .Values.webhook.enabled",
            _drawn(sources.objects("components/webhook/network-policy.yaml")),
        ),
        "web-view-network-policy": when(
            f"and .Values.networkPolicy.enabled {_PAGES}",
            _drawn(sources.objects("components/web-view/network-policy.yaml")),
        ),
        "user-policy": when(".Values.policies.users", _drawn(sources.objects("components/users/policy.yaml"))),
        "policies": when(".Values.policies.enabled", _drawn(sources.objects("components/policies/policies.yaml"))),
        "webhooks": when(".Values.webhook.enabled", _webhooks(sources)),
        "webhook-self-signed": when(
            _SELF_SIGNED,
            _drawn(
                sources.objects("components/self-signed/rights.yaml")
                + sources.objects("components/self-signed/secret.yaml")
            ),
        ),
        "webhook-cert-manager": when(
            _CERT_MANAGER, _drawn(sources.objects("overlays/webhook/cert-manager/certificate.yaml"))
        ),
        "monitoring-reader": when(
            ".Values.monitoring.reader", _drawn(sources.objects("overlays/monitoring/reader.yaml"))
        ),
        "monitoring-service-monitor": when(
            ".Values.monitoring.serviceMonitor", _drawn(sources.objects("overlays/monitoring/servicemonitor.yaml"))
        ),
        "monitoring-alerts": when(
            ".Values.monitoring.alerts", _drawn(sources.objects("overlays/monitoring/alerts.yaml"))
        ),
        "monitoring-dashboard": when(".Values.monitoring.dashboard", _dashboard()),
    }
    return {f"templates/{name}.yaml": text for name, text in made.items()}


def files(sources: Sources) -> dict[str, str]:
    """The files that templates read, by their paths in the chart."""
    # What the components say of webhooks is added by the template, as far as the values want them.
    for replaced in ("components/webhook/tutti.yaml", "components/self-signed/tutti.yaml"):
        sources.text(replaced)
    return {
        CONFIGURATION: sources.text("base/tutti.yaml"),
        DASHBOARD: sources.text("overlays/monitoring/dashboard.json"),
    }


def _drawn(objects: Iterable[Json], change: Change | None = None) -> str:
    return documents(_object(one, change) for one in objects)


def _object(obj: Json, change: Change | None = None) -> str:
    """One object, with the labels of the release."""
    drawing, made = Drawing(), copy.deepcopy(obj)
    if change is not None:
        change(made, drawing)
    meta = made["metadata"]
    labels = {**meta.pop("labels", {}), drawing.block(_LABELS): None}
    first = {name: meta.pop(name) for name in ("name", "namespace") if name in meta}
    made["metadata"] = {**first, "labels": labels, **meta}
    return drawing.text(made)


def _crds() -> str:
    def kept(obj: Json, drawing: Drawing) -> None:
        keep = when(".Values.crds.keep", "annotations:\n  helm.sh/resource-policy: keep")
        obj["metadata"][drawing.block(keep)] = None

    return when(".Values.crds.install", _drawn(crds(), kept))


def _account(obj: Json, drawing: Drawing) -> None:
    obj["metadata"][drawing.block(from_values("serviceAccount.annotations", "annotations", 4))] = None


def _cluster_role(sources: Sources) -> str:
    def further(obj: Json, drawing: Drawing) -> None:
        if obj["kind"] == "ClusterRole":
            for one in rights_components():
                rules = Drawing().text(sources.added(one.file, "/rules"))
                obj["rules"].append(drawing.block(when(f".Values.{one.value}", rules)))
            pages = Drawing().text(sources.added("components/web-view/rule.yaml", "/rules"))
            obj["rules"].append(drawing.block(when(_PAGES, pages)))

    return _drawn(sources.objects("base/cluster-role.yaml"), further)


def _lease_role(sources: Sources) -> str:
    def further(obj: Json, drawing: Drawing) -> None:
        if obj["kind"] == "Role":
            rules = Drawing().text(sources.added("components/shards/lease-rule.yaml", "/rules"))
            obj["rules"].append(drawing.block(when(".Values.rights.shards", rules)))

    return _drawn(sources.objects("base/lease-role.yaml"), further)


def _service(sources: Sources) -> str:
    objects = sources.objects("base/service.yaml")

    def pages(obj: Json, drawing: Drawing) -> None:
        added = Drawing().text(sources.added("components/web-view/service.yaml", "/spec/ports"))
        obj["spec"]["ports"].append(drawing.block(when(_PAGES, added)))

    def of_shard(obj: Json, drawing: Drawing) -> None:
        obj["spec"]["selector"] = _of_shard(obj, drawing)
        obj["spec"]["ports"] = [port for port in obj["spec"]["ports"] if port["name"] == "metrics"]

    return _drawn(objects, pages) + _each_shard(objects, of_shard)


def _disruption_budget(sources: Sources) -> str:
    objects = sources.objects("components/ha/disruption-budget.yaml")

    def of_shard(obj: Json, drawing: Drawing) -> None:
        obj["spec"]["selector"]["matchLabels"] = _of_shard(obj, drawing)

    return _drawn(objects) + _each_shard(objects, of_shard)


def _network_policy(sources: Sources) -> str:
    objects = sources.objects("base/network-policy.yaml")

    def of_shard(obj: Json, drawing: Drawing) -> None:
        _egress(obj, drawing)
        obj["spec"]["podSelector"]["matchLabels"] = _of_shard(obj, drawing)

    return _drawn(objects, _egress) + _each_shard(objects, of_shard)


def _of_shard(obj: Json, drawing: Drawing) -> Json:
    """Name an object after a shard; returns the labels of the pods that are this shard's and nobody else's."""
    obj["metadata"]["name"] = f"tutti-shard-{drawing.hole('$shard')}"
    return {"app.kubernetes.io/name": "tutti-shard", "app.kubernetes.io/component": drawing.hole("$shard | quote")}


def _each_shard(objects: Iterable[Json], of_shard: Change) -> str:
    """An object for each shard: by `with`, values are found from within the loop as they are outside."""
    begin, end = "{{- range $shard := .Values.shards }}\n{{- with $ }}\n", "{{- end }}\n{{- end }}\n"
    return begin + _drawn(objects, of_shard) + end


def _egress(obj: Json, drawing: Drawing) -> None:
    obj["spec"]["egress"].append(drawing.block(items_of("networkPolicy.egress", 2)))


def _configuration() -> str:
    meta = {"name": "tutti-configuration", "namespace": "tutti-system"}
    head = _object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    return f'{head}data:\n  tutti.yaml: |\n    {{{{- include "tutti.configuration" . | nindent 4 }}}}\n'


def _deployment(sources: Sources) -> str:
    [deployment] = sources.objects("base/deployment.yaml")
    [available] = sources.objects("components/ha/deployment.yaml")
    [certified] = sources.objects("overlays/webhook/cert-manager/deployment.yaml")

    def settings(obj: Json, drawing: Drawing, labels: Json | None = None) -> None:
        spec, two = obj["spec"], available["spec"]
        spec["replicas"] = drawing.hole(
            f'kindIs "invalid" .Values.replicas | ternary (ternary {two["replicas"]} {spec["replicas"]} '
            ".Values.highAvailability.enabled) .Values.replicas"
        )
        template = spec["template"]
        template["metadata"] = {
            "annotations": {
                "checksum/configuration": drawing.hole('include "tutti.configuration" . | sha256sum'),
                drawing.block(items_of("podAnnotations", 8)): None,
            },
            "labels": {**template["metadata"]["labels"], drawing.block(items_of("podLabels", 8)): None},
        }
        pod = template["spec"]
        mount = certified["spec"]["template"]["spec"]
        pod["priorityClassName"] = drawing.hole(".Values.priorityClassName")
        [container] = pod["containers"]
        container["image"] = drawing.hole('include "tutti.image" .')
        at = list(container).index("image") + 1
        policy = when(".Values.image.pullPolicy", "imagePullPolicy: {{ .Values.image.pullPolicy }}")
        extra = {drawing.block(policy): None}
        pairs = list(container.items())
        container.clear()
        container.update([*pairs[:at], *extra.items(), *pairs[at:]])
        port = sources.added("components/web-view/port.yaml", "/spec/template/spec/containers/0/ports")
        container["ports"].append(drawing.block(when(_PAGES, Drawing().text(port))))
        container["args"].append(drawing.block(items_of("extraArgs", 8)))
        container[drawing.block(from_values("extraEnv", "env", 8))] = None
        container["resources"] = drawing.hole("toYaml .Values.resources | nindent 10")
        container["volumeMounts"] = [  # what a patch of kustomize adds to a list comes first in it
            drawing.block(when(_CERT_MANAGER, Drawing().text(mount["containers"][0]["volumeMounts"]))),
            *container["volumeMounts"],
            drawing.block(items_of("extraVolumeMounts", 8)),
        ]
        pod["volumes"] = [
            drawing.block(when(_CERT_MANAGER, Drawing().text(mount["volumes"]))),
            *pod["volumes"],
            drawing.block(items_of("extraVolumes", 6)),
        ]
        spread = copy.deepcopy(two["template"]["spec"]["topologySpreadConstraints"])
        for constraint in spread if labels is not None else ():
            constraint["labelSelector"]["matchLabels"] = labels
        pod[drawing.block(_spread(drawing.text(spread)))] = None
        for value in ("nodeSelector", "affinity", "tolerations"):
            pod[drawing.block(from_values(value, value, 8))] = None
        pod[drawing.block(from_values("image.pullSecrets", "imagePullSecrets", 8))] = None

    def of_shard(obj: Json, drawing: Drawing) -> None:
        """Make it the Deployment of a shard: with pods of its own, which no Service or other Deployment selects."""
        own = _of_shard(obj, drawing)
        settings(obj, drawing, own)
        obj["spec"]["selector"]["matchLabels"] = own
        template = obj["spec"]["template"]
        template["metadata"]["labels"] |= own
        template["spec"]["containers"][0]["args"].insert(2, f"--shard={drawing.hole('$shard')}")

    return _object(deployment, settings) + _each_shard([deployment], of_shard)


def _spread(available: str) -> str:
    return (
        "{{- if .Values.topologySpreadConstraints }}\n"
        "topologySpreadConstraints:\n"
        "{{- toYaml .Values.topologySpreadConstraints | nindent 8 }}\n"
        "{{- else if .Values.highAvailability.enabled }}\n"
        f"topologySpreadConstraints:\n{available}"
        "{{- end }}\n"
    )


def _webhooks(sources: Sources) -> str:
    sources.text("overlays/webhook/cert-manager/injected.yaml")
    authority = "annotations:\n  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/tutti-webhook"
    more = {
        "webhook.pods": sources.added("components/pod-webhook/webhook.yaml", "/webhooks"),
        "webhook.suspend": sources.added("components/suspend-webhook/webhook.yaml", "/webhooks"),
    }

    def added(obj: Json, drawing: Drawing) -> None:
        obj["metadata"][drawing.block(when(_CERT_MANAGER, authority))] = None
        if obj["kind"] == "MutatingWebhookConfiguration":
            for value, webhooks in more.items():
                obj["webhooks"].append(drawing.block(when(f".Values.{value}", Drawing().text(webhooks))))

    return _drawn(sources.objects("components/webhook/webhooks.yaml"), added)


def _dashboard() -> str:
    meta = {"name": "tutti-dashboard", "namespace": "tutti-system", "labels": {"grafana_dashboard": "1"}}
    drawn = _object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    return drawn + "data:\n  tutti.json: |\n" + indented(f'{{{{- .Files.Get "{DASHBOARD}" | nindent 4 }}}}', 4)
