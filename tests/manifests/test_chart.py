"""The Helm chart installs what kustomize does, by Helm's own code, and says no to what it does not know."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from release.chart import sources
from release.chart.__main__ import chart, differences
from release.chart.metadata import OLDEST_KUBERNETES
from release.chart.sources import Sources, rights_components
from release.chart.values import defaults, described
from tests.manifests.check import OVERLAYS, ROOT, judge, rendered
from tests.manifests.helm import CHART, TEMPLATE_OF_TESTS, loaded, objects, sdk
from tests.manifests.pod_security import restricted_violations
from tutti.api.configuration import load_configuration

BY_HELM = {
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
}
"""Labels that Helm's charts bear and kustomize's objects do not."""
ALL_RIGHTS = {"rights": {}}
for _one in rights_components():
    *_groups, _name = _one.value.split(".")[1:]
    _within = ALL_RIGHTS["rights"]
    for _group in _groups:
        _within = _within.setdefault(_group, {})
    _within[_name] = True

PAGES_AND_USERS = {"webView": {"enabled": True}, "policies": {"users": True}}

SETS = {
    "as it is": {},
    "two replicas": {"highAvailability": {"enabled": True}},
    "self-signed webhooks": {"webhook": {"enabled": True}},
    "cert-manager's webhooks": {"webhook": {"enabled": True, "certificate": "CertManager"}},
    "every webhook": {"webhook": {"enabled": True, "pods": True, "suspend": True}, "rights": {"suspend": True}},
    "every right": ALL_RIGHTS,
    "everything for monitoring": {
        "monitoring": dict.fromkeys(("serviceMonitor", "alerts", "dashboard", "reader"), True)
    },
    "pages and users": PAGES_AND_USERS,
    "every role": {"rbac": {"userRoles": True, "viewer": True, "checkController": True}},
    "next to nothing": {
        "crds": {"install": False},
        "rbac": {"userRoles": False},
        "networkPolicy": {"enabled": False},
        "policies": {"enabled": False},
        "replicas": 0,
        "rights": {"devices": False},
    },
    "settings of one's own": {
        "image": {
            "repository": "registry.example/tutti", "digest": "sha256:" + "0" * 64, "pullPolicy": "Always",
            "pullSecrets": [{"name": "registry"}],
        },
        "replicas": 3,
        "configuration": {"requireQueue": True, "profiles": [{"schedulerName": "gangs"}]},
        "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "8Gi"}},
        "priorityClassName": "system-node-critical",
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [
            {
                "topologyKey": "zone",
                "maxSkew": 1,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"b": "2"}},
            }
        ],
        "podAnnotations": {"a": "1"}, "podLabels": {"b": "2"}, "commonLabels": {"c": "3"},
        "extraArgs": ["--journal=/journal/file"], "extraEnv": [{"name": "A", "value": "1"}],
        "extraVolumes": [{"name": "journal", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "journal", "mountPath": "/journal"}],
        "serviceAccount": {"annotations": {"d": "4"}},
        "networkPolicy": {"egress": [{"ports": [{"port": 9000}]}]},
        "tests": {"queueName": "tests"},
    },
    "two shards": {
        "highAvailability": {"enabled": True}, "rights": {"shards": True}, "shards": ["gpu", "cpu"],
        "configuration": {"shards": [{"name": "gpu", "cohorts": ["a"]}, {"name": "cpu", "cohorts": ["b"]}]},
    },
}  # fmt: skip
OVERLAYS_BY_SET = {
    "as it is": "default",
    "two replicas": "ha",
    "self-signed webhooks": "webhook/self-signed",
    "cert-manager's webhooks": "webhook/cert-manager",
}


def by_name(found):
    return {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]): one for one in found}


def plain(one):
    """An object without what says only by which tool it was installed; its configuration as the operator reads it."""
    meta = one["metadata"]
    labels = {name: value for name, value in meta.get("labels", {}).items() if name not in BY_HELM}
    annotations = {
        name: value for name, value in meta.get("annotations", {}).items() if not name.startswith("helm.sh/")
    }
    made = {**one, "metadata": {**meta, "labels": labels, "annotations": annotations}}
    if one["kind"] == "ConfigMap" and "tutti.yaml" in one["data"]:
        made["metadata"]["name"] = meta["name"].rpartition("-")[0] if meta["name"].count("-") > 1 else meta["name"]
        made["data"] = load_configuration(one["data"]["tutti.yaml"])
    if one["kind"] == "Deployment":
        template = made["spec"]["template"]
        template["metadata"].pop("annotations", None)
        for volume in template["spec"]["volumes"]:
            if "configMap" in volume:
                volume["configMap"]["name"] = "tutti-configuration"
    return made


def test_the_chart_is_what_the_manifests_make_of_it():
    assert differences(CHART) == [], "run `make chart`"


def test_a_file_of_the_manifests_that_is_in_no_template_is_told(monkeypatch, tmp_path):
    shutil.copytree(ROOT / "manifests", tmp_path / "manifests")
    (tmp_path / "manifests" / "components" / "new").mkdir()
    (tmp_path / "manifests" / "components" / "new" / "deployment.yaml").write_text("kind: Deployment")
    monkeypatch.setattr(sources, "MANIFESTS", tmp_path / "manifests")
    with pytest.raises(ValueError, match=r"in no template of the chart: manifests/components/new/deployment\.yaml"):
        chart()


def test_every_value_that_a_template_asks_for_is_described_and_every_one_described_is_asked_for():
    properties = described(Sources())
    known = set()

    def walk(here, before):
        for name, one in here.items():
            known.add(f"{before}{name}")
            if "default" not in one:
                walk(one["properties"], f"{before}{name}.")

    walk(properties, "")
    texts = [file.read_text() for file in (CHART / "templates").rglob("*") if file.is_file()]
    asked = {found for text in texts for found in re.findall(r"\.Values\.([\w.]+)", text)}
    assert asked <= known
    leaves = {name for name in known if not any(other.startswith(f"{name}.") for other in known)}
    # `tutti.image` looks at its values from within `image`.
    within = {"image.repository", "image.tag", "image.digest", "global"}
    assert leaves - within <= asked


def test_what_is_installed_by_default_is_what_the_default_overlay_has():
    rights = defaults(described(Sources()))["rights"]
    on = {name for name, value in rights.items() if value is True} | {
        f"frameworks.{name}" for name, value in rights["frameworks"].items() if value
    }
    assert on == {"devices", *(f"frameworks.{name}" for name in rights["frameworks"])}


def test_helm_finds_nothing_to_complain_of():
    for name, values in SETS.items():
        report = sdk().lint(CHART, values, strict=True, namespace="tutti-system", kube_version=f"v{OLDEST_KUBERNETES}")
        said = [one["error"] for one in report["messages"] if one["severity"] > 1]
        assert (report["errors"], said) == ([], []), name


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
@pytest.mark.parametrize("name", OVERLAYS_BY_SET)
def test_helm_makes_what_kustomize_makes(name):
    by_helm = by_name(plain(one) for one in objects(SETS[name], definitions=True))
    by_kustomize = by_name(plain(one) for one in rendered(OVERLAYS / OVERLAYS_BY_SET[name]))
    del by_kustomize["Namespace", None, "tutti-system"]  # made by `helm install --create-namespace`
    assert by_helm.keys() == by_kustomize.keys()
    for key, one in by_helm.items():
        assert one == by_kustomize[key], key


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_monitoring_is_that_of_its_overlay():
    by_helm = by_name(plain(one) for one in objects(SETS["everything for monitoring"]))
    for key, one in by_name(plain(one) for one in rendered(OVERLAYS / "monitoring")).items():
        made = by_helm[key]
        if one["kind"] == "ConfigMap":  # a block of text ends with a line feed or without
            made["data"]["tutti.json"] = made["data"]["tutti.json"].rstrip() + "\n"
            one["data"]["tutti.json"] = one["data"]["tutti.json"].rstrip() + "\n"
        assert made == one, key


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_pages_and_users_are_those_of_their_components(tmp_path):
    shutil.copytree(ROOT / "manifests", tmp_path / "manifests")
    shutil.copytree(ROOT / "crds", tmp_path / "crds")
    mine = tmp_path / "manifests" / "overlays" / "mine"
    mine.mkdir()
    components = ["../../components/web-view", "../../components/users"]
    (mine / "kustomization.yaml").write_text(yaml.safe_dump({"resources": ["../default"], "components": components}))
    asked = by_name(plain(one) for one in rendered(mine))
    del asked["Namespace", None, "tutti-system"]
    made = by_name(plain(one) for one in objects(PAGES_AND_USERS, definitions=True))
    assert made.keys() == asked.keys()
    for key, one in made.items():
        if one["kind"] == "ConfigMap":  # the component leaves `ui: {}` to whoever has it
            assert one["data"].ui is not None
        else:
            assert one == asked[key], key


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_every_component_of_rights_is_a_value_that_adds_its_rules_and_no_others(tmp_path):
    [base] = [one for one in objects(SETS["next to nothing"]) if (one["kind"], one["metadata"]["name"]) == ROLE]
    [full] = [one for one in objects(ALL_RIGHTS) if (one["kind"], one["metadata"]["name"]) == ROLE]
    shutil.copytree(ROOT / "manifests", tmp_path / "manifests")
    shutil.copytree(ROOT / "crds", tmp_path / "crds")
    mine = tmp_path / "manifests" / "overlays" / "mine"
    mine.mkdir()
    components = [f"../../components/{one.path}" for one in rights_components()]
    (mine / "kustomization.yaml").write_text(yaml.safe_dump({"resources": ["../../base"], "components": components}))
    [asked] = [one for one in rendered(mine) if (one["kind"], one["metadata"]["name"]) == ROLE]
    assert len(full["rules"]) > len(base["rules"])
    assert full["rules"] == asked["rules"]


ROLE = ("ClusterRole", "tutti")


async def test_an_api_server_takes_every_set_of_values():
    async with judge() as judging:
        await judging.problems({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
        for name, values in SETS.items():
            made = objects(values, namespace="elsewhere", definitions=name == "as it is")
            assert [text for one in made for text in await judging.problems(one)] == [], name


@pytest.mark.parametrize("name", SETS)
def test_whatever_is_set_stays_within_the_release_and_within_restricted_pod_security(name):
    made = objects(SETS[name], namespace="elsewhere")
    assert "tutti-system" not in json.dumps(made)
    for deployment in (one for one in made if one["kind"] == "Deployment"):
        assert restricted_violations(deployment["spec"]["template"]["spec"]) == []
    [configured] = [one for one in made if one["kind"] == "ConfigMap" and "tutti.yaml" in one["data"]]
    assert load_configuration(configured["data"]["tutti.yaml"]).leader_election.lease_namespace == "elsewhere"
    assert {one["metadata"]["labels"]["app.kubernetes.io/part-of"] for one in made} == {"tutti"}


def test_settings_of_ones_own_arrive():
    values = SETS["settings of one's own"]
    made = objects(values)
    [deployment] = [one for one in made if one["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert deployment["spec"]["replicas"] == 3
    assert container["image"] == "registry.example/tutti@sha256:" + "0" * 64
    assert container["args"][-1] == "--journal=/journal/file"
    assert container["env"] == values["extraEnv"]
    assert container["resources"] == values["resources"]
    assert values["extraVolumeMounts"][0] in container["volumeMounts"]
    assert values["extraVolumes"][0] in pod["volumes"]
    for name in ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "priorityClassName"):
        assert pod[name] == values[name], name
    [configured] = [one for one in made if one["kind"] == "ConfigMap"]
    configuration = load_configuration(configured["data"]["tutti.yaml"])
    assert configuration.require_queue
    assert [one.scheduler_name for one in configuration.profiles] == ["gangs"]
    assert configuration.metrics.secure_bind_address == ":8443"
    test = yaml.safe_load(loaded().render(values, name="tutti")[f"tutti/templates/{TEMPLATE_OF_TESTS}"])
    assert test["spec"]["schedulerName"] == "gangs"
    assert test["metadata"]["labels"]["scheduling.tutti.dev/queue-name"] == "tests"
    assert restricted_violations(test["spec"]) == []


def test_a_shard_has_all_that_the_default_one_has_and_each_selects_its_own_pods_alone():
    """Two replicas that are spread by another's labels may stand on one node; a drain would take both."""
    made = by_name(objects(SETS["two shards"]))
    pods = {
        key[2]: one["spec"]["template"]["metadata"]["labels"] for key, one in made.items() if key[0] == "Deployment"
    }
    assert pods.keys() == {"tutti", "tutti-shard-gpu", "tutti-shard-cpu"}

    def selected(labels):
        return {name for name, own in pods.items() if labels.items() <= own.items()}

    for name in pods:

        def found(kind, name=name):
            return made[kind, "tutti-system", name]["spec"]

        deployment = found("Deployment")
        spread = [
            one["labelSelector"]["matchLabels"] for one in deployment["template"]["spec"]["topologySpreadConstraints"]
        ]
        selectors = [
            deployment["selector"]["matchLabels"],
            *spread,
            found("PodDisruptionBudget")["selector"]["matchLabels"],
            found("NetworkPolicy")["podSelector"]["matchLabels"],
            found("Service")["selector"],
        ]
        assert len(spread) == 2
        assert [selected(one) for one in selectors] == [{name}] * 6


def test_a_changed_configuration_rolls_the_deployment():
    def checksum(values):
        [deployment] = [one for one in objects(values) if one["kind"] == "Deployment"]
        return deployment["spec"]["template"]["metadata"]["annotations"]["checksum/configuration"]

    assert checksum({}) == checksum({"replicas": 2})
    assert checksum({}) != checksum({"configuration": {"requireQueue": True}})


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"imge": {}}, "additional properties 'imge' not allowed"),
        ({"rights": {"frameworks": {"rey": True}}}, "additional properties 'rey' not allowed"),
        ({"webhook": {"pods": True}}, "'/webhook/enabled': value must be true"),
        ({"webhook": {"enabled": True, "suspend": True}}, "'/rights/suspend': value must be true"),
        ({"webhook": {"enabled": "yes"}}, "'/webhook/enabled': got string, want boolean"),
        ({"image": {"digest": "latest"}}, "'/image/digest'"),
        ({"webhook": {"certificate": "Mine"}}, "value must be one of 'SelfSigned', 'CertManager'"),
    ],
)
def test_what_is_not_known_or_does_not_go_together_is_refused_with_its_place(values, where):
    with pytest.raises(sdk().HelmValuesError) as refused:
        loaded().render(values)
    assert where in str(refused.value)


def test_definitions_are_upgraded_with_the_chart_and_stay_when_it_goes():
    def policies(values):
        made = objects(values, definitions=True)
        found = [one for one in made if one["kind"] == "CustomResourceDefinition"]
        return {one["metadata"].get("annotations", {}).get("helm.sh/resource-policy") for one in found}

    assert not (CHART / "crds").exists()  # Helm never upgrades what is there
    assert policies({}) == {"keep"}
    assert policies({"crds": {"keep": False}}) == {None}


def test_what_artifact_hub_is_told_is_so():
    told = yaml.safe_load((CHART / "Chart.yaml").read_text())
    hub = {name: yaml.safe_load(text) for name, text in told["annotations"].items()}
    defined = {one["metadata"]["name"]: one["spec"]["names"]["kind"] for one in sources.crds()}
    assert {one["name"]: one["kind"] for one in hub["artifacthub.io/crds"]} == defined
    assert all(one["description"] for one in hub["artifacthub.io/crds"])
    assert {one["kind"] for one in hub["artifacthub.io/crdsExamples"]} <= set(defined.values())
    assert told["appVersion"] == sources.version()
    page = (ROOT / "docs" / "operations" / "upgrade.md").read_text()
    assert f"Kubernetes {OLDEST_KUBERNETES.removesuffix('.0')} to " in page


def test_what_is_published_installs_the_image_that_was_signed(tmp_path):
    digest = "sha256:" + "1" * 64
    arguments = ["--image", "ghcr.io/o/tutti", "--digest", digest, "--home", "https://github.com/o/tutti"]
    folder = tmp_path / "tutti"
    subprocess.run([sys.executable, "-m", "release.chart", *arguments, str(folder)], cwd=ROOT, check=True)
    archive = sdk().package(folder, destination=str(tmp_path))
    packed = loaded(archive)
    assert packed.version == sources.version()
    assert packed.metadata["home"] == "https://github.com/o/tutti"
    assert yaml.safe_load(packed.metadata["annotations"]["artifacthub.io/changes"])
    [deployment] = [one for one in objects({}, path=archive) if one["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == f"ghcr.io/o/tutti@{digest}"
