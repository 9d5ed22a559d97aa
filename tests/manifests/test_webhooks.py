"""The webhook configurations call what the operator serves."""

from __future__ import annotations

import shutil
import subprocess

import pytest
import yaml

from tests.manifests.rbac import BASE
from tutti.api.configuration import TuttiConfiguration, load_configuration
from tutti.api.frameworks import KNOWN_KINDS
from tutti.api.kinds import KINDS
from tutti.api.model import GROUP
from tutti.api.pod_scheduler import SCHEDULER_LABEL, SYSTEM_NAMESPACES

COMPONENT = BASE.parent / "components" / "webhook"
STARTED = ("job-v1", "jobset-v1alpha2", "raycluster-v1", "rayjob-v1", "trainjob-v1alpha1")
OVERLAYS = BASE.parent / "overlays" / "webhook"


def hooks():
    documents = yaml.safe_load_all((COMPONENT / "webhooks.yaml").read_text())
    return {document["kind"]: document["webhooks"] for document in documents}


def called(webhooks):
    return {(hook["clientConfig"]["service"]["path"], hook["rules"][0]["resources"][0]) for hook in webhooks}


def test_every_kind_is_reviewed_and_queued_kinds_are_filled_in():
    found = hooks()
    assert called(found["ValidatingWebhookConfiguration"]) == {
        (f"/validate-{name.lower()}", kind.PLURAL) for name, kind in KINDS.items()
    }
    assert called(found["MutatingWebhookConfiguration"]) == {
        ("/default-workload", "workloads"),
        ("/default-podgroup", "podgroups"),
    }


def test_they_fail_closed_for_objects_of_our_group_alone():
    for hook in [hook for hooks_of in hooks().values() for hook in hooks_of]:
        assert hook["failurePolicy"] == "Fail"
        assert {group for rule in hook["rules"] for group in rule["apiGroups"]} == {GROUP}
        assert not any("*" in rule[key] or "/" in name for rule in hook["rules"] for key in rule for name in rule[key])
        assert "DELETE" not in hook["rules"][0]["operations"]


def test_whoever_takes_a_finalizer_off_is_not_held_up_while_the_operator_is_away():
    for hook in hooks()["ValidatingWebhookConfiguration"]:
        assert [one["expression"] for one in hook["matchConditions"]] == ["!has(object.metadata.deletionTimestamp)"]


def test_the_configuration_turns_webhooks_on_and_changes_nothing_else_of_the_base():
    base, overlay = (load_configuration((folder / "tutti.yaml").read_text()) for folder in (BASE, COMPONENT))
    assert overlay == base.model_copy(update={"webhook": base.webhook.model_copy(update={"enabled": True})})


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_the_certificate_is_where_the_configuration_looks_for_it():
    built = subprocess.run(
        ["kubectl", "kustomize", str(OVERLAYS / "cert-manager")], capture_output=True, text=True, check=True
    )
    objects = [one for one in yaml.safe_load_all(built.stdout) if one]
    (deployment,) = [one for one in objects if one["kind"] == "Deployment"]
    (certificate,) = [one for one in objects if one["kind"] == "Certificate"]
    pod = deployment["spec"]["template"]["spec"]
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    mounts = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}

    assert secrets[mounts[TuttiConfiguration().webhook.cert_dir]] == certificate["spec"]["secretName"]


def pod_hook():
    (patch,) = yaml.safe_load((BASE.parent / "components" / "pod-webhook" / "webhook.yaml").read_text())
    assert (patch["op"], patch["path"]) == ("add", "/webhooks/-")
    return patch["value"]


def test_the_webhook_of_pods_holds_nothing_up_and_is_asked_where_it_is_wanted_alone():
    hook = pod_hook()
    (rule,) = hook["rules"]

    assert hook["failurePolicy"] == "Ignore"
    assert (rule["apiGroups"], rule["resources"], rule["operations"]) == ([""], ["pods"], ["CREATE"])
    opted, excepted = hook["namespaceSelector"]["matchExpressions"]
    assert opted == {"key": SCHEDULER_LABEL, "operator": "Exists"}
    assert set(excepted["values"]) == {*SYSTEM_NAMESPACES, "tutti-system"}
    assert hook["clientConfig"]["service"]["path"] == "/schedule-pod"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_the_components_add_up_whichever_way_the_certificate_comes():
    parts = ["frameworks", "policies", "suspend", "webhook", "pod-webhook", "suspend-webhook", "self-signed"]
    folder = OVERLAYS / "tried"
    folder.mkdir()
    try:
        components = [f"../../../components/{one}" for one in parts]
        (folder / "kustomization.yaml").write_text(
            yaml.safe_dump({"resources": ["../../../base"], "components": components})
        )
        built = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=True)
    finally:
        shutil.rmtree(folder)
    objects = [one for one in yaml.safe_load_all(built.stdout) if one]
    (mutating,) = [one for one in objects if one["kind"] == "MutatingWebhookConfiguration"]
    last = [hook["name"].partition(".")[0] for hook in mutating["webhooks"]][-1 - len(STARTED) :]
    assert last == ["schedule-pod", *(f"suspend-{kind}" for kind in STARTED)]
    (role,) = [one for one in objects if one["kind"] == "ClusterRole" and one["metadata"]["name"] == "tutti"]
    assert {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "patch"]} in role["rules"]
    assert mutating["metadata"]["name"] == "tutti"  # so that its certificate is that of the others


def test_every_kind_that_is_started_is_asked_about_where_it_is_served():
    hooks = yaml.safe_load((BASE.parent / "components" / "suspend-webhook" / "webhook.yaml").read_text())
    named = set()
    for hook in [patch["value"] for patch in hooks]:
        (rule,) = hook["rules"]
        (group,), (version,), (plural,) = rule["apiGroups"], rule["apiVersions"], rule["resources"]
        assert (hook["failurePolicy"], rule["operations"]) == ("Ignore", ["CREATE"])
        kind = next(one for one in KNOWN_KINDS if (one.group, one.plural) == (group, plural))
        assert version in kind.versions
        assert hook["clientConfig"]["service"]["path"] == f"/suspend-{kind.kind.lower()}-{version}"
        named.add((group, plural))
    assert named == {(one.group, one.plural) for one in KNOWN_KINDS if one.startable}


def test_what_is_started_may_be_read_and_changed():
    rules = yaml.safe_load((BASE.parent / "components" / "suspend" / "rules.yaml").read_text())
    granted = {
        (group, what) for one in rules for group in one["value"]["apiGroups"] for what in one["value"]["resources"]
    }
    assert granted - {("batch", "jobs/status")} == {(one.group, one.plural) for one in KNOWN_KINDS if one.startable}
