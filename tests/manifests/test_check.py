"""`make manifests-check` takes what we ship, and refuses what an API server would."""

from __future__ import annotations

import copy
import shutil

import pytest

from tests.manifests.check import ROOT, documents, everything, judge, overlays, rendered, samples

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")

OVERLAYS = ROOT / "manifests" / "overlays"


def found(objects, kind):
    return copy.deepcopy(next(one for one in objects if one["kind"] == kind))


async def test_every_overlay_and_sample_is_taken_as_it_is():
    said = await everything()

    assert len(said) == len(overlays()) + len(samples())
    assert {place: problems for place, problems in said.items() if problems} == {}


def misspelt_probe(default):
    deployment = found(default, "Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}
    return deployment, 'unknown field "spec.template.spec.containers[0].livenessprobe"'


def text_for_a_number(default):
    deployment = found(default, "Deployment")
    deployment["spec"]["replicas"] = "two"
    return deployment, "replicas"


def selector_that_selects_something_else(default):
    deployment = found(default, "Deployment")
    deployment["spec"]["selector"]["matchLabels"] = {"app": "other"}
    return deployment, "selector"


def rule_without_verbs(default):
    role = found(default, "ClusterRole")
    role["rules"][0]["verbs"] = []
    return role, "verbs"


def rule_that_cel_refuses(default):
    queue = found(documents((ROOT / "manifests/samples/two-queues.yaml").read_text()), "ClusterQueue")
    queue["spec"]["preemption"] = {"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}
    return queue, "borrowWithinCohort.policy needs reclaimWithinCohort other than Never"


def field_that_a_certificate_does_not_have(default):
    certificate = found(rendered(OVERLAYS / "webhook" / "cert-manager"), "Certificate")
    certificate["spec"]["dnsName"] = "tutti"
    return certificate, 'unknown field "spec.dnsName"'


def interval_that_is_none(default):
    monitor = found(rendered(OVERLAYS / "monitoring"), "ServiceMonitor")
    monitor["spec"]["endpoints"][0]["interval"] = "often"
    return monitor, "interval"


def kind_that_nobody_serves(default):
    return {"apiVersion": "apps/v2", "kind": "Deployment", "metadata": {"name": "x"}}, "no schema is known"


async def test_what_a_server_would_refuse_is_refused_and_told():
    default = rendered(OVERLAYS / "default")
    async with judge() as judging:
        assert await judging.problems(found(default, "Namespace")) == []
        for spoil in (
            misspelt_probe,
            text_for_a_number,
            selector_that_selects_something_else,
            rule_without_verbs,
            rule_that_cel_refuses,
            field_that_a_certificate_does_not_have,
            interval_that_is_none,
            kind_that_nobody_serves,
        ):
            wrong, told = spoil(default)
            assert told in " ".join(await judging.problems(wrong)), spoil.__name__
