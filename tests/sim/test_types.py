"""The table of built-in types, and decoding by it."""

import pytest

from tests.sim.type_table import TABLE as STORED
from tests.sim.type_table import rendered
from tutti_sim.http.openapi import Builder, Names
from tutti_sim.kinds.builtin import resources
from tutti_sim.kinds.decode import TABLE, DecodeError, Notes, decoder
from tutti_sim.kinds.resource import Registry


def decode(kind, document):
    notes = Notes()
    return decoder(kind)(document, "", notes), notes.unknown


def test_the_stored_table_is_the_official_client_s():
    assert STORED.read_text(encoding="utf-8") == rendered(), "run python -m tests.sim.type_table"


def test_every_built_in_resource_has_its_type():
    assert [one.plural for one in resources() if one.codec.type_name not in TABLE] == []


def test_unknown_fields_are_dropped_and_named():
    document = {"metadata": {"name": "p", "x": 1}, "spec": {"containers": [{"name": "c", "y": 1}]}}

    obj, unknown = decode("Pod", document)

    assert obj == {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    assert unknown == ['unknown field "metadata.x"', 'unknown field "spec.containers[0].y"']


def test_zero_values_that_go_cannot_tell_from_absent_are_left_out():
    document = {
        "metadata": {"labels": {}, "finalizers": [], "namespace": ""},
        "spec": {"hostNetwork": False, "priority": 0},
    }

    assert decode("Pod", document)[0] == {"metadata": {}, "spec": {"priority": 0}}


@pytest.mark.parametrize(
    ("kind", "document", "message"),
    [
        ("Pod", {"spec": {"containers": "x"}}, r"unmarshal string into Go struct field PodSpec\.spec\.containers"),
        ("Pod", {"spec": {"priority": "x"}}, "PodSpec.spec.priority of type int32"),
        ("Lease", {"spec": {"renewTime": "2024-01-02T03:04:05Z"}}, "parsing time"),
        ("Secret", {"data": {"k": "%%"}}, "illegal base64"),
        ("Pod", {"spec": {"overhead": {"cpu": "much"}}}, "quantities must match"),
    ],
)
def test_wrong_types_are_refused_in_go_s_words(kind, document, message):
    with pytest.raises(DecodeError, match=message):
        decode(kind, document)


# The whole numbers that Go holds in 64 bits: `format: int64` in the OpenAPI document of kube-apiserver 1.36, and in the
# types of the fields that came after it.
LONG = {
    "CSIDriverSpec.nodeAllocatableUpdatePeriodSeconds",
    "ClusterTrustBundleProjection.user",
    "Condition.observedGeneration",
    "ConfigMapVolumeSource.defaultUser",
    "ContainerImage.sizeBytes",
    "ControllerRevision.revision",
    "CronJobSpec.startingDeadlineSeconds",
    "CustomResourceDefinitionCondition.observedGeneration",
    "CustomResourceDefinitionStatus.observedGeneration",
    "DaemonSetStatus.observedGeneration",
    "DeleteOptions.gracePeriodSeconds",
    "DeploymentStatus.observedGeneration",
    "DeviceAttribute.int",
    "DeviceAttribute.ints",
    "DeviceSubRequest.count",
    "DeviceToleration.tolerationSeconds",
    "DownwardAPIVolumeFile.user",
    "DownwardAPIVolumeSource.defaultUser",
    "ExactDeviceRequest.count",
    "HorizontalPodAutoscalerCondition.observedGeneration",
    "HorizontalPodAutoscalerStatus.observedGeneration",
    "JSONSchemaProps.maxItems",
    "JSONSchemaProps.maxLength",
    "JSONSchemaProps.maxProperties",
    "JSONSchemaProps.minItems",
    "JSONSchemaProps.minLength",
    "JSONSchemaProps.minProperties",
    "JobSpec.activeDeadlineSeconds",
    "KeyToPath.user",
    "LinuxContainerUser.gid",
    "LinuxContainerUser.supplementalGroups",
    "LinuxContainerUser.uid",
    "ListMeta.remainingItemCount",
    "NodeSwapStatus.capacity",
    "ObjectMeta.deletionGracePeriodSeconds",
    "ObjectMeta.generation",
    "PodCertificateProjection.user",
    "PodCondition.observedGeneration",
    "PodDisruptionBudgetStatus.observedGeneration",
    "PodSecurityContext.fsGroup",
    "PodSecurityContext.runAsGroup",
    "PodSecurityContext.runAsUser",
    "PodSecurityContext.supplementalGroups",
    "PodSpec.activeDeadlineSeconds",
    "PodSpec.terminationGracePeriodSeconds",
    "PodStatus.observedGeneration",
    "Probe.terminationGracePeriodSeconds",
    "ProjectedVolumeSource.defaultUser",
    "ReplicaSetStatus.observedGeneration",
    "ReplicationControllerStatus.observedGeneration",
    "ResourcePool.generation",
    "ResourcePool.resourceSliceCount",
    "SecretVolumeSource.defaultUser",
    "SecurityContext.runAsGroup",
    "SecurityContext.runAsUser",
    "ServiceAccountTokenProjection.expirationSeconds",
    "ServiceAccountTokenProjection.user",
    "SleepAction.seconds",
    "StatefulSetStatus.observedGeneration",
    "StorageV1TokenRequest.expirationSeconds",
    "TokenRequestSpec.expirationSeconds",
    "Toleration.tolerationSeconds",
    "ValidatingAdmissionPolicyStatus.observedGeneration",
}
WHOLE = {
    f"{owner}.{field.name}": field.kind
    for owner, fields in TABLE.items()
    for field in fields.values()
    if field.kind in ("int", "[int]")
}


def takes(place, number):
    """Whether a field takes a whole number, alone or in its list."""
    owner, field = place.split(".")
    try:
        obj, _ = decode(owner, {field: [number] if WHOLE[place] == "[int]" else number})
    except DecodeError:
        return False
    return obj[field] in (number, [number])


@pytest.mark.parametrize(
    ("number", "long_only"),
    [(2**31 - 1, False), (-(2**31), False), (2**31, True), (-(2**31) - 1, True), (2**63 - 1, True), (-(2**63), True)],
)
def test_whole_numbers_are_as_long_as_in_go(number, long_only):
    assert {place for place in WHOLE if takes(place, number)} == (LONG if long_only else set(WHOLE))


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_no_whole_number_has_more_than_64_bits(number):
    assert [place for place in WHOLE if takes(place, number)] == []


def test_a_list_of_whole_numbers_is_named_with_their_length():
    with pytest.raises(DecodeError, match=r"supplementalGroups of type \[\]int64"):
        decode("PodSecurityContext", {"supplementalGroups": 1})


def test_the_openapi_document_says_how_long_whole_numbers_are():
    names, told = Names(Registry(resources())), set()
    for place, kind in WHOLE.items():
        owner, field = place.split(".")
        document = Builder(names, "#/definitions/")
        shown = document.schemas[document.add(owner, "")]["properties"][field]
        if (shown["items"] if kind == "[int]" else shown)["format"] == "int64":
            told.add(place)

    assert told == LONG
