"""Built-in kinds over HTTP: what a write may change and what it is refused for, as kube-apiserver 1.36.2 answers."""

import pytest

from tutti_sim.kinds.columns import NODE

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def fields(answer):
    return sorted(cause["field"] for cause in answer["details"]["causes"])


def pod(**spec):
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}


AFFINITY = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"gpu": "1"}}}]},
         ["spec.containers[0].resources.requests[gpu]"] * 2),
        ({"containers": [{"name": "c", "image": "i", "env": [{"value": "x"}]}]}, ["spec.containers[0].env[0].name"]),
        ({"containers": [{"name": "c", "image": "i", "livenessProbe": {}}]}, ["spec.containers[0].livenessProbe"]),
        ({"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
         ["spec.containers[0].volumeMounts[0].name"]),
        ({"volumes": [{"emptyDir": {}}]}, ["spec.volumes[0].name"]),
        ({"tolerations": [{"key": "k", "operator": "Sometimes"}]}, ["spec.tolerations[0].operator"]),
        ({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "k", "operator": "Like"}]}]}}}},
         [AFFINITY + "[0].matchExpressions[0].operator"]),
        ({"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
         ["spec.topologySpreadConstraints[0].topologyKey"]),
    ],
)  # fmt: skip
async def test_pods_that_break_a_rule_are_refused_with_its_field(api, spec, expected):
    refused = await api.call("POST", PODS, pod(**spec), status=422)

    assert fields(refused) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"containers": []}, ["spec.containers", "spec.containers"]),
        ({"schedulerName": "other"}, ["spec"]),
        ({"tolerations": []}, ["spec.tolerations"]),
        ({"schedulingGates": [{"name": "example.com/new"}]}, ["spec", "spec.schedulingGates[0].name"]),
    ],
)
async def test_what_a_pod_may_not_change(api, change, expected):
    await api.create(PODS, pod(tolerations=[{"key": "k", "operator": "Exists"}]))

    refused = await api.call("PATCH", f"{PODS}/p", {"spec": change}, status=422)

    assert set(expected) >= set(fields(refused))
    assert fields(refused)


async def test_the_default_priority_class_counts_from_when_it_is_made_until_it_is_gone(api):
    classes, seen = "/apis/scheduling.k8s.io/v1/priorityclasses", []
    kind = {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True}
    for name, change in (("a", None), ("b", "POST"), ("c", "DELETE")):
        if change == "POST":
            await api.create(classes, kind)
        elif change == "DELETE":
            await api.call("DELETE", f"{classes}/usual")
        made = await api.create(PODS, {**pod(), "metadata": {"name": name}})
        seen.append((made["spec"]["priority"], made["spec"].get("priorityClassName")))

    assert seen == [(0, None), (7, "usual"), (0, None)]


async def test_leaving_priority_out_does_not_change_it(api):
    await api.create(PODS, pod(priorityClassName="system-node-critical"))

    changed = await api.call("PATCH", f"{PODS}/p", {"spec": {"priority": None, "preemptionPolicy": None}})

    assert changed["spec"]["priority"] == 2_000_001_000
    assert changed["metadata"]["generation"] == 1


async def test_a_write_that_admission_undoes_changes_nothing(api):
    made = await api.create(PODS, pod())

    again = await api.call("PATCH", f"{PODS}/p", {"spec": {"tolerations": []}})

    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_patch_that_makes_a_wrong_type_is_invalid(api):
    await api.create(PODS, pod())

    for kind in (MERGE, STRATEGIC):
        refused = await api.call("PATCH", f"{PODS}/p", {"spec": {"priority": "high"}}, status=422, kind=kind)
        assert fields(refused) == ["patch"]


async def test_a_budget_s_selector_is_replaced_by_a_strategic_patch(api):
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    await api.create(budgets, {"metadata": {"name": "b"}, "spec": spec})

    changed = await api.call("PATCH", f"{budgets}/b", {"spec": {"selector": {}}}, kind=STRATEGIC)

    assert changed["spec"]["selector"] == {}


async def test_a_job_takes_its_template_s_labels_when_it_has_none(api):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {**pod()["spec"], "restartPolicy": "Never"}}
    job = {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": template}}

    made = await api.create("/apis/batch/v1/namespaces/default/jobs", job)

    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"]
    assert made["metadata"]["labels"]["a"] == "b"


async def test_templates_do_not_request_what_they_are_limited_to(api):
    limited = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [limited]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}

    made = await api.create("/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "d"}, "spec": spec})

    assert "requests" not in made["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert (await api.create(PODS, pod(containers=[limited])))["spec"]["containers"][0]["resources"]["requests"] == {
        "cpu": "1"
    }


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"apiGroups": [""], "resources": ["pods"]}, ["rules[0].verbs"]),
        ({"verbs": ["get"], "resources": ["pods"]}, ["rules[0].apiGroups"]),
        ({"verbs": ["get"], "apiGroups": [""]}, ["rules[0].resources"]),
        ({"verbs": ["get"], "nonResourceURLs": ["/metrics"]}, ["rules[0].nonResourceURLs"]),
    ],
)
async def test_a_role_s_rule_that_allows_nothing_is_refused(api, rule, expected):
    """ValidatePolicyRule of pkg/apis/rbac/validation."""
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"

    refused = await api.call("POST", roles, {"metadata": {"name": "r"}, "rules": [rule]}, status=422)

    assert fields(refused) == expected


async def test_a_pod_that_is_gated_is_not_made_on_a_node(api):
    refused = await api.call("POST", PODS, pod(schedulingGates=[{"name": "example.com/a"}], nodeName="n"), status=422)

    assert refused["message"] == (
        'Pod "p" is invalid: spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared'
    )
    assert refused["details"]["causes"] == [
        {
            "reason": "FieldValueForbidden",
            "message": "Forbidden: cannot be set until all schedulingGates have been cleared",
            "field": "spec.nodeName",
        }
    ]
    await api.create(PODS, pod(schedulingGates=[{"name": "example.com/a"}]))
    refused = await api.call("PATCH", f"{PODS}/p", {"spec": {"nodeName": "n"}}, status=422)
    assert "spec" in fields(refused)


@pytest.mark.parametrize(
    ("ready", "said"), [("True", "Ready"), ("False", "NotReady"), ("Unknown", "NotReady"), (None, "Unknown")]
)
def test_a_node_of_which_nobody_hears_is_shown_as_not_ready(ready, said):
    """pkg/printers/internalversion, printNode: `Unknown` is for nodes without that condition."""
    conditions = [] if ready is None else [{"type": "Ready", "status": ready}]
    cells = {column.name: column.cell for column in NODE}
    assert cells["Status"]({"metadata": {}, "spec": {}, "status": {"conditions": conditions}}) == said


async def test_no_node_is_nominated_for_a_pod_that_has_one(api):
    """1.36, core/validation, ValidatePodStatusUpdate."""
    await api.create(PODS, pod())
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    nominated = {"status": {"nominatedNodeName": "n"}}
    await api.call("PATCH", f"{PODS}/p/status", nominated)
    await api.call("POST", f"{PODS}/p/binding", binding, status=201)

    refused = await api.call("PATCH", f"{PODS}/p/status", nominated, status=422)

    assert refused["details"]["causes"] == [
        {
            "reason": "FieldValueForbidden",
            "message": "Forbidden: may not be set on pods that are already bound to a node",
            "field": "status.nominatedNodeName",
        }
    ]
    await api.call("PATCH", f"{PODS}/p/status", {"status": {"nominatedNodeName": None, "phase": "Running"}})


@pytest.mark.parametrize("options", [{"kind": ""}, {"kind": None}, {"kind": "DeleteOptions"}, {}])
async def test_options_of_a_deletion_need_no_kind(api, options):
    await api.create(PODS, pod())

    assert (await api.call("DELETE", f"{PODS}/p", options))["metadata"]["name"] == "p"


@pytest.mark.parametrize("kind", ["application/apply-patch+yaml", "text/plain"])
async def test_a_scale_takes_no_patches_of_other_kinds(api, kind):
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    await api.create(
        path, {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    )

    await api.call("PATCH", f"{path}/d/scale", {"spec": {"replicas": 2}}, kind=kind, status=415)
    scaled = await api.call("PATCH", f"{path}/d/scale", {"spec": {"replicas": 2}}, kind=STRATEGIC)

    assert scaled["spec"]["replicas"] == 2
