"""Opcodes of gangs: options that multiply, and pod groups of any kind."""

from __future__ import annotations

import pytest

from tests.bench.opcodes import Watcher, file
from tutti_bench.session import WorkloadFailed


async def test_the_gang_options_multiply_and_mark_equal_pods(bench):
    group = bench.template("group.yaml", """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: "g-{{.Index}}"}
spec: {minAvailable: {{.podsPerGroup}}, selector: {matchLabels: {g: "g-{{.Index}}"}}}
""")  # fmt: skip
    pod = bench.template("pod.yaml", """
metadata: {name: "p-{{.Index}}", labels: {g: "g-{{DivideInt .Index .podsPerGroup}}"}}
spec: {containers: [{name: c, image: i}]}
""")  # fmt: skip
    text = file(
        "  - {opcode: createNodes, count: 1}\n"
        "  - {opcode: createNamespaces, prefix: gang, count: 1}\n"
        f"  - {{opcode: createAny, countParam: $groups, namespace: gang-0, templatePath: {group},"
        " templateParams: {podsPerGroup: $perGroup}}\n"
        "  - opcode: createPods\n    countParam: $groups\n    countMultiplierParam: $perGroup\n"
        "    signatureBatchSizeParam: $perGroup\n    namespace: gang-0\n"
        f"    podTemplatePath: {pod}\n    templateParams: {{podsPerGroup: $perGroup}}\n",
        "{groups: 2, perGroup: 3}",
    )
    async with (
        Watcher(bench, "/api/v1/pods") as pods,
        Watcher(bench, "/apis/policy/v1/poddisruptionbudgets") as groups,
    ):
        await bench.run(text)
        made = await pods.until(lambda all_: len(pods.gone) == 6)
        budgets = await groups.until(lambda all_: len(groups.gone) == 2)
    assert {one["metadata"]["name"]: one["spec"]["minAvailable"] for one in budgets} == {"g-0": 3, "g-1": 3}
    labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in made}
    assert labels["p-5"] == {"g": "g-1", "signature": "signature-label-1"}
    assert labels["p-2"] == {"g": "g-0", "signature": "signature-label-0"}


POD_GROUPS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: podgroups.gangs.example.com}
spec:
  group: gangs.example.com
  scope: Namespaced
  names: {plural: podgroups, singular: podgroup, kind: PodGroup, listKind: PodGroupList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


async def test_pod_groups_of_any_kind_are_created_and_waited_for(bench):
    """CreateAny is offered until the kind it has just defined is served; createPodGroups waits until all are there."""
    definition = bench.template("crd.yaml", POD_GROUPS)
    group = bench.template(
        "group.yaml",
        "apiVersion: gangs.example.com/v1\nkind: PodGroup\nmetadata: {name: 'g-{{.Index}}', finalizers: [example.com/nobody]}\n",
    )
    text = file(
        f"  - {{opcode: createAny, templatePath: {definition}}}\n"
        f"  - {{opcode: createAny, namespace: gangs, templatePath: {group}}}\n"
        "  - {opcode: waitForPodGroups, namespace: gangs, count: 1}\n"
        f"  - {{opcode: createPodGroups, namespace: more, count: 3, templatePath: {group}}}\n"
        "  - {opcode: waitForPodGroups, namespace: more, count: 3}\n"
    )
    await bench.run(text)
    assert await bench.items("/apis/apiextensions.k8s.io/v1/customresourcedefinitions") == []


async def test_pod_groups_of_a_version_that_is_not_served_are_made_in_one_that_is(bench):
    """Upstream's files have v1alpha3 or v1beta1, and kube-apiserver 1.36 serves v1alpha2."""
    approved = "annotations: {api-approved.kubernetes.io: 'unapproved, for tests'}"
    native = POD_GROUPS.replace("gangs.example.com", "scheduling.k8s.io").replace("- name: v1", "- name: v1alpha2")
    definition = bench.template("crd.yaml", native.replace(".scheduling.k8s.io}", f".scheduling.k8s.io, {approved}}}"))
    group = bench.template(
        "group.yaml", "apiVersion: scheduling.k8s.io/v1alpha3\nkind: PodGroup\nmetadata: {name: 'g-{{.Index}}'}\n"
    )
    await bench.run(
        file(
            f"  - {{opcode: createAny, templatePath: {definition}}}\n"
            f"  - {{opcode: createAny, namespace: gangs, templatePath: {group}}}\n"
            f"  - {{opcode: createPodGroups, namespace: more, count: 3, templatePath: {group}}}\n"
        )
    )


async def test_waiting_for_pod_groups_that_nobody_made_is_told(bench):
    with pytest.raises(WorkloadFailed, match=r"S/w: operation 0, waitForPodGroups: .* no PodGroup was created in"):
        await bench.run(file("  - {opcode: waitForPodGroups, namespace: x, count: 1}\n"))
