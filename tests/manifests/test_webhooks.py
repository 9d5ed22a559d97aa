"""The webhook configurations call what the operator serves."""

from __future__ import annotations

import shutil
import subprocess

import pytest
import yaml

from tests.manifests.rbac import BASE
from tutti.api.configuration import TuttiConfiguration, load
from tutti.api.kinds import KINDS

OVERLAY = BASE.parent / "overlays" / "webhooks"


def hooks():
    documents = yaml.safe_load_all((OVERLAY / "webhooks.yaml").read_text())
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


def test_only_what_would_go_wrong_unnoticed_is_held_up_while_the_operator_is_away():
    found = hooks()
    assert {hook["failurePolicy"] for hook in found["ValidatingWebhookConfiguration"]} == {"Ignore"}
    assert {hook["failurePolicy"] for hook in found["MutatingWebhookConfiguration"]} == {"Fail"}


def test_the_configuration_turns_webhooks_on_and_changes_nothing_else_of_the_base():
    base, overlay = (load((folder / "tutti.yaml").read_text()) for folder in (BASE, OVERLAY))
    assert overlay == base.model_copy(update={"webhook": base.webhook.model_copy(update={"enabled": True})})


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_the_certificate_is_where_the_configuration_looks_for_it():
    built = subprocess.run(["kubectl", "kustomize", str(OVERLAY)], capture_output=True, text=True, check=True)
    objects = [one for one in yaml.safe_load_all(built.stdout) if one]
    (deployment,) = [one for one in objects if one["kind"] == "Deployment"]
    (certificate,) = [one for one in objects if one["kind"] == "Certificate"]
    pod = deployment["spec"]["template"]["spec"]
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    mounts = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}

    assert secrets[mounts[TuttiConfiguration().webhook.cert_dir]] == certificate["spec"]["secretName"]
