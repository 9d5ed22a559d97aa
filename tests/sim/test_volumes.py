"""Claims and volumes in a cluster: bound, provisioned, protected, released."""

import pytest

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PODS = "/api/v1/namespaces/default/pods"
SELECTED = "volume.kubernetes.io/selected-node"
ZONE = "topology.kubernetes.io/zone"


def claim(name="d", size="5Gi", storage_class="c", **meta):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": name, **meta}, "spec": {**spec, "storageClassName": storage_class}}


def volume(name="v", size="5Gi", storage_class="c", **spec):
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "storageClassName": storage_class,
            "hostPath": {"path": "/"},
            **spec,
        },
    }


def phase(name):
    return lambda obj: obj.get("status", {}).get("phase") == name


async def make_class(api, name="c", mode="Immediate", provisioner="csi.example.com", **fields):
    body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **fields}
    await api.create(CLASSES, body)


async def test_a_claim_is_bound_to_the_smallest_volume_that_fits(api):
    for name, size in (("big", "50Gi"), ("small", "1Gi"), ("fits", "6Gi")):
        await api.create(VOLUMES, volume(name, size))
        await api.until(f"{VOLUMES}/{name}", phase("Available"))

    await api.create(CLAIMS, claim())

    bound = await api.until(f"{CLAIMS}/d", phase("Bound"))
    assert bound["spec"]["volumeName"] == "fits"
    assert bound["status"]["capacity"] == {"storage": "6Gi"}
    assert bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    held = await api.until(f"{VOLUMES}/fits", phase("Bound"))
    assert held["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]


async def test_a_claim_waits_for_a_volume_to_come(api):
    await api.create(CLAIMS, claim())
    await api.create(VOLUMES, volume())

    assert (await api.until(f"{CLAIMS}/d", phase("Bound")))["spec"]["volumeName"] == "v"


async def test_a_volume_is_made_for_a_claim_of_a_class_with_a_provisioner(api):
    await make_class(api)
    await api.create(CLAIMS, claim())

    bound = await api.until(f"{CLAIMS}/d", phase("Bound"))

    made = await api.get(f"{VOLUMES}/{bound['spec']['volumeName']}")
    assert made["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == "csi.example.com"
    assert made["spec"]["capacity"] == {"storage": "5Gi"}


@pytest.mark.parametrize("provisioner", ["csi.example.com", "kubernetes.io/no-provisioner"])
async def test_a_claim_that_waits_for_its_consumer_is_bound_when_a_node_is_chosen(api, provisioner):
    await make_class(api, mode="WaitForFirstConsumer", provisioner=provisioner)
    if provisioner.endswith("no-provisioner"):
        await api.create(VOLUMES, volume())
        await api.until(f"{VOLUMES}/v", phase("Available"))
    await api.create(CLAIMS, claim())
    await api.create(CLAIMS, claim("immediate", storage_class=""))
    await api.create(VOLUMES, volume("other", storage_class=""))
    await api.until(f"{CLAIMS}/immediate", phase("Bound"))
    assert (await api.get(f"{CLAIMS}/d"))["status"]["phase"] == "Pending"

    await api.call("PATCH", f"{CLAIMS}/d", {"metadata": {"annotations": {SELECTED: "node-0000"}}})

    bound = await api.until(f"{CLAIMS}/d", phase("Bound"))
    if provisioner == "csi.example.com":
        made = await api.get(f"{VOLUMES}/{bound['spec']['volumeName']}")
        terms = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert terms == [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-0"]}]}]


async def test_a_volume_that_a_scheduler_has_reserved_is_bound(api):
    await make_class(api, mode="WaitForFirstConsumer", provisioner="kubernetes.io/no-provisioner")
    made = await api.create(CLAIMS, claim())
    reference = {"namespace": "default", "name": "d", "uid": made["metadata"]["uid"]}
    await api.create(VOLUMES, volume(claimRef=reference))

    assert (await api.until(f"{CLAIMS}/d", phase("Bound")))["spec"]["volumeName"] == "v"


async def test_a_node_outside_the_class_s_topology_is_taken_off_the_claim(api):
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": ["elsewhere"]}]}]
    await make_class(api, mode="WaitForFirstConsumer", allowedTopologies=terms)

    await api.create(CLAIMS, claim(annotations={SELECTED: "node-0000"}))

    left = await api.until(f"{CLAIMS}/d", lambda obj: SELECTED not in obj["metadata"].get("annotations", {}))
    assert left["status"]["phase"] == "Pending"


async def test_an_ephemeral_volume_gets_a_claim_that_goes_with_its_pod(api, pod):
    await make_class(api, mode="WaitForFirstConsumer")
    user = pod()
    template = {"metadata": {"labels": {"app": "x"}}, "spec": claim()["spec"]}
    user["spec"]["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    made = await api.create(PODS, user)

    found = await api.until(f"{CLAIMS}/p-scratch", lambda obj: obj["status"]["phase"] == "Pending")
    assert found["metadata"]["labels"] == {"app": "x"}
    owner = found["metadata"]["ownerReferences"][0]
    assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
    assert found["spec"]["storageClassName"] == "c"
    await api.call("DELETE", f"{PODS}/p")

    await api.gone(f"{CLAIMS}/p-scratch")


async def test_a_claim_stays_while_a_pod_uses_it(api, pod):
    await api.create(VOLUMES, volume())
    await api.create(CLAIMS, claim())
    await api.until(f"{CLAIMS}/d", phase("Bound"))
    user = pod(node="node-0000")
    user["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "d"}}]
    await api.create(PODS, user)
    await api.until(f"{PODS}/p", phase("Running"))

    await api.call("DELETE", f"{CLAIMS}/d")
    held = await api.get(f"{CLAIMS}/d")
    assert held["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    await api.call("DELETE", f"{PODS}/p")

    await api.gone(f"{CLAIMS}/d")
    await api.until(f"{VOLUMES}/v", phase("Released"))


async def test_a_provisioned_volume_goes_with_its_claim(api):
    await make_class(api)
    await api.create(CLAIMS, claim())
    name = (await api.until(f"{CLAIMS}/d", phase("Bound")))["spec"]["volumeName"]

    await api.call("DELETE", f"{CLAIMS}/d")

    await api.gone(f"{CLAIMS}/d")
    await api.gone(f"{VOLUMES}/{name}")


async def test_a_claim_whose_volume_is_gone_is_lost(api):
    await api.create(VOLUMES, volume())
    await api.create(CLAIMS, claim())
    await api.until(f"{CLAIMS}/d", phase("Bound"))

    await api.call("PATCH", f"{VOLUMES}/v", {"metadata": {"finalizers": None}})
    await api.call("DELETE", f"{VOLUMES}/v")

    await api.until(f"{CLAIMS}/d", phase("Lost"))


# The registries of these kinds return the deleted object (pkg/registry/storage, ReturnDeletedObject, 1.36).
@pytest.mark.parametrize(
    ("plural", "body"),
    [
        ("storageclasses", {"provisioner": "csi.example.com"}),
        ("csinodes", {"spec": {"drivers": []}}),
        ("csidrivers", {"spec": {}}),
        ("volumeattachments", {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}),
    ],
)
async def test_a_deleted_storage_object_is_answered_with(api, plural, body):
    path = f"/apis/storage.k8s.io/v1/{plural}"
    made = await api.create(path, {"metadata": {"name": "x"}, **body})

    answer = await api.call("DELETE", f"{path}/x")

    assert answer["metadata"]["uid"] == made["metadata"]["uid"]


async def test_a_namespace_with_claims_can_go(api):
    await api.create("/api/v1/namespaces", {"metadata": {"name": "ns"}})
    await api.create("/api/v1/namespaces/ns/persistentvolumeclaims", claim())

    await api.call("DELETE", "/api/v1/namespaces/ns")

    await api.gone("/api/v1/namespaces/ns")


@pytest.fixture
async def bound(bare):
    """Makes a claim of 5Gi, bound as a controller binds it, with so much capacity, of a class."""

    async def make(capacity="5Gi", storage_class="c", phase="Bound", **fields):
        await make_class(bare, **fields)
        await bare.create(CLAIMS, claim(storage_class=storage_class))
        status = {"status": {"phase": phase, "capacity": {"storage": capacity} if capacity else {}}}
        await bare.call("PATCH", f"{CLAIMS}/d/status", status, status=200)

    return make


def asking(size):
    return {"spec": {"resources": {"requests": {"storage": size}}}}


@pytest.mark.parametrize("size", ["5Gi", "5120Mi", "6Gi", "10Gi"])
async def test_a_bound_claim_may_grow_where_its_class_allows_that(bare, bound, size):
    await bound(allowVolumeExpansion=True)
    await bare.call("PATCH", f"{CLAIMS}/d", asking(size), status=200)


@pytest.mark.parametrize(
    ("fields", "storage_class"),
    [({}, "c"), ({"allowVolumeExpansion": False}, "c"), ({"allowVolumeExpansion": True}, "other"), ({}, "")],
)
async def test_a_bound_claim_may_not_grow_where_no_class_allows_that(bare, bound, fields, storage_class):
    await bound(storage_class=storage_class, **fields)
    refused = await bare.call("PATCH", f"{CLAIMS}/d", asking("6Gi"), status=403)
    assert refused["reason"] == "Forbidden"
    assert refused["message"] == (
        'persistentvolumeclaims "d" is forbidden: only dynamically provisioned pvc can be resized and '
        "the storageclass that provisions the pvc must support resize"
    )


@pytest.mark.parametrize(
    ("capacity", "size", "status"),
    [
        ("5Gi", "4Gi", 422),
        ("5Gi", "5119Mi", 422),
        ("3Gi", "3Gi", 422),  # the size that it has, which is less than was asked for, does not count as more
        ("3Gi", "2Gi", 422),
        ("3Gi", "4Gi", 200),  # the volume could not grow so far
        ("", "4Gi", 200),
    ],
)
async def test_a_bound_claim_shrinks_no_further_than_its_volume_has_grown(bare, bound, capacity, size, status):
    await bound(capacity, allowVolumeExpansion=True)
    answer = await bare.call("PATCH", f"{CLAIMS}/d", asking(size), status=status)
    if status == 422:
        assert answer["message"] == (
            'PersistentVolumeClaim "d" is invalid: spec.resources.requests.storage: '
            "Forbidden: field can not be less than status.capacity"
        )


@pytest.mark.parametrize("phase", ["Pending", "Lost"])
@pytest.mark.parametrize("size", ["4Gi", "6Gi"])
async def test_a_claim_that_is_not_bound_keeps_its_size(bare, bound, phase, size):
    await bound("", phase=phase, allowVolumeExpansion=True)
    refused = await bare.call("PATCH", f"{CLAIMS}/d", asking(size), status=422)
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["spec"]
    assert "spec is immutable after creation except resources.requests and volumeAttributesClassName" in str(refused)


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"resources": {"limits": {"storage": "9Gi"}}}, ["spec"]),
        ({"resources": {"requests": None}}, ["spec", "spec.resources.requests.storage", "spec.resources[storage]"]),
        ({"volumeMode": "Block"}, ["spec", "volumeMode"]),
        ({"accessModes": ["ReadWriteMany"]}, ["spec"]),
        ({"storageClassName": "other"}, ["spec"]),
        ({"selector": {"matchLabels": {"a": "b"}}}, ["spec"]),
    ],
)
async def test_what_a_bound_claim_may_not_change(bare, bound, change, fields):
    await bound(allowVolumeExpansion=True)
    refused = await bare.call("PATCH", f"{CLAIMS}/d", {"spec": change}, status=422)
    assert sorted(cause["field"] for cause in refused["details"]["causes"]) == fields


@pytest.mark.parametrize("name", ["slow", "", None])
async def test_a_bound_claim_takes_other_attributes(bare, bound, name):
    await bound()
    await bare.call("PATCH", f"{CLAIMS}/d", {"spec": {"volumeAttributesClassName": "fast"}}, status=200)
    await bare.call("PATCH", f"{CLAIMS}/d", {"spec": {"volumeAttributesClassName": name}}, status=200)


async def test_a_claim_that_is_not_bound_keeps_its_attributes(bare):
    await bare.create(CLAIMS, claim())
    refused = await bare.call("PATCH", f"{CLAIMS}/d", {"spec": {"volumeAttributesClassName": "fast"}}, status=422)
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["spec"]


async def test_a_claim_without_a_class_is_given_one_once(bare):
    body = claim()
    del body["spec"]["storageClassName"]
    await bare.create(CLAIMS, body)
    await bare.call("PATCH", f"{CLAIMS}/d", {"spec": {"storageClassName": "c"}}, status=200)
    await bare.call("PATCH", f"{CLAIMS}/d", {"spec": {"storageClassName": "other"}}, status=422)


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({"resources": {"requests": {"storage": "0"}}}, "spec.resources[storage]", "must be greater than zero"),
        ({"volumeMode": "Lump"}, "spec.volumeMode", 'supported values: "Block", "Filesystem"'),
        (
            {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]},
            "spec.accessModes",
            "may not use ReadWriteOncePod with other access modes",
        ),
    ],
)
async def test_a_claim_that_breaks_a_rule_is_refused(bare, spec, field, text):
    body = claim()
    body["spec"].update(spec)
    refused = await bare.call("POST", CLAIMS, body, status=422)
    assert [(cause["field"], text in cause["message"]) for cause in refused["details"]["causes"]] == [(field, True)]
