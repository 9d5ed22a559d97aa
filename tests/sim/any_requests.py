"""Requests of any kind, drawn: methods, paths, queries and bodies that make sense, that nearly do, and that do not."""

import json

from hypothesis import strategies as st

SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
NAMES = st.sampled_from(
    [
        "apiVersion",
        "kind",
        "metadata",
        "spec",
        "status",
        "name",
        "namespace",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "uid",
        "containers",
        "resources",
        "requests",
        "limits",
        "cpu",
        "image",
        "ports",
        "env",
        "tolerations",
        "schedulingGates",
        "nodeName",
        "template",
        "selector",
        "matchLabels",
        "matchExpressions",
        "key",
        "operator",
        "values",
        "replicas",
        "data",
        "target",
        "conditions",
        "managedFields",
        "fieldsV1",
        "manager",
        "operation",
        "resourceVersion",
        "generateName",
        "$patch",
        "$setElementOrder/containers",
        "$retainKeys",
        "$deleteFromPrimitiveList/finalizers",
        "deletionTimestamp",
        "creationTimestamp",
        "affinity",
        "volumes",
        "taints",
        "allocatable",
        "value",
        "f:spec",
        ".",
        "1",
    ]
)
VALUES = st.sampled_from(
    ["v1", "Pod", "a", "", "1", "1e999999999", "-1Gi", "replace", "delete", "merge", "2026-01-01T00:00:00Z", "Exists"]
)
DOCUMENTS = st.recursive(
    SCALARS | VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=5),
    max_leaves=20,
)
OBJECTS = st.dictionaries(NAMES, DOCUMENTS, max_size=6)
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "finalizers": ["a/b"], "labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}]},
}


@st.composite
def spoiled(draw, whole=POD):
    """A good document with something else in one place."""
    if not isinstance(whole, dict | list) or not whole or draw(st.integers(0, 3)) == 0:
        return draw(DOCUMENTS)
    if isinstance(whole, list):
        return [draw(spoiled(whole[0])), *whole[1:]]
    key = draw(st.sampled_from(sorted(whole)))
    return {**whole, key: draw(spoiled(whole[key]))}


BODIES = (OBJECTS | spoiled() | DOCUMENTS).map(lambda one: json.dumps(one, allow_nan=True).encode()) | st.binary(
    max_size=30
)
POINTERS = st.sampled_from(
    [
        "",
        "/",
        "/spec",
        "/metadata",
        "/metadata/finalizers/0",
        "/metadata/finalizers/-",
        "/spec/containers/0/image",
        "/a/b",
    ]
)
OPERATIONS = st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"])
PATCHES = st.one_of(
    st.tuples(
        st.just("application/json-patch+json"),
        st.lists(
            st.fixed_dictionaries(
                {"op": OPERATIONS, "path": POINTERS}, optional={"value": DOCUMENTS, "from": POINTERS}
            ),
            max_size=4,
        )
        | DOCUMENTS,
    ),
    st.tuples(
        st.sampled_from(
            [
                "application/strategic-merge-patch+json",
                "application/merge-patch+json",
                "application/apply-patch+yaml",
            ]
        ),
        spoiled()
        | spoiled({**POD, "metadata": {"finalizers": ["a/b"], "$patch": "x", "managedFields": [{"a": {}}]}})
        | spoiled({"spec": {"containers": [{"name": "c", "$patch": "delete"}], "$setElementOrder/containers": [{}]}})
        | spoiled({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$retainKeys": ["name"]}}),
    ),
)
PATCHED = st.sampled_from(
    [
        "/api/v1/namespaces/default/pods/p",
        "/api/v1/namespaces/default/pods/p/status",
        "/api/v1/namespaces/default/serviceaccounts/s",
        "/apis/example.com/v1/namespaces/default/things/t",
        "/apis/example.com/v1/namespaces/default/things/t/status",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/others.example.com",
    ]
)
TYPES = st.sampled_from(
    [
        "application/json",
        "application/yaml",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/json-patch+json",
        "application/apply-patch+yaml",
        "application/vnd.kubernetes.protobuf",
        "text/plain",
        "",
    ]
)
SEGMENTS = st.sampled_from(
    [
        "api",
        "apis",
        "v1",
        "v1beta1",
        "namespaces",
        "default",
        "pods",
        "p",
        "nodes",
        "configmaps",
        "status",
        "binding",
        "eviction",
        "scale",
        "token",
        "finalize",
        "log",
        "resize",
        "apps",
        "deployments",
        "batch",
        "jobs",
        "example.com",
        "things",
        "a",
        "watch",
        "proxy",
        "events.k8s.io",
        "leases",
        "coordination.k8s.io",
        "..",
        ".",
        "%2e%2e",
        "%00",
        "%2F",
        "etc",
        "%ff",
        "openapi",
        "v3",
        "healthz",
        "customresourcedefinitions",
        "apiextensions.k8s.io",
        "selfsubjectaccessreviews",
        "authorization.k8s.io",
    ]
) | st.text(max_size=4)
OBJECTS_AT = st.sampled_from(
    [
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/default/pods/p",
        "/api/v1/namespaces/default/pods/p/status",
        "/api/v1/namespaces/default/pods/p/binding",
        "/api/v1/namespaces/default/pods/p/eviction",
        "/api/v1/namespaces/default/pods/p/resize",
        "/api/v1/namespaces/default/configmaps/c",
        "/api/v1/namespaces/default/serviceaccounts/s/token",
        "/api/v1/nodes/n",
        "/api/v1/namespaces/default/finalize",
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/apps/v1/namespaces/default/deployments/d/scale",
        "/apis/batch/v1/namespaces/default/jobs",
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        "/apis/example.com/v1/namespaces/default/things",
        "/apis/example.com/v1/namespaces/default/things/t",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    ]
)
PATHS = OBJECTS_AT | st.lists(SEGMENTS, max_size=8).map(lambda parts: "/" + "/".join(parts))
SELECTORS = st.text(alphabet="ab=!<>(),in notx/-\\\"'é²", max_size=16)
NUMBERS = st.sampled_from(["", "0", "-1", "1", "²", "٣", "9" * 30, "1.5", "x", "1_000"])
QUERIES = st.fixed_dictionaries(
    {},
    optional={
        "labelSelector": SELECTORS,
        "fieldSelector": SELECTORS | st.sampled_from(["metadata.name=a", "spec.nodeName!=", "status.phase==\\"]),
        "resourceVersion": NUMBERS,
        "resourceVersionMatch": st.sampled_from(["Exact", "NotOlderThan", "x"]),
        "limit": NUMBERS,
        "continue": st.sampled_from(["x", "e30", "eyJydiI6MX0", "é"]),
        "dryRun": st.sampled_from(["All", "x"]),
        "fieldManager": st.text(max_size=3),
        "fieldValidation": st.sampled_from(["Strict", "Warn", "Ignore", "x"]),
        "force": st.sampled_from(["true", "x"]),
        "gracePeriodSeconds": NUMBERS,
        "propagationPolicy": st.sampled_from(["Orphan", "Foreground", "x"]),
        "timeoutSeconds": st.sampled_from(["1"]),
    },
)
ACCEPTS = st.sampled_from(
    ["", "*/*", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io", "text/html", ";;,=", "a/b;q=x"]
)
METHODS = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"])
REQUESTS = st.tuples(METHODS, PATHS, QUERIES, TYPES, ACCEPTS, BODIES)
THINGS = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                                "properties": {
                                    "replicas": {"type": "integer", "minimum": 0, "default": 1},
                                    "values": {
                                        "type": "array",
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {"name": {"type": "string"}},
                                        },
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                    },
                                    "value": {"x-kubernetes-int-or-string": True},
                                },
                                "x-kubernetes-validations": [{"rule": "self.replicas < 10"}],
                            }
                        },
                    }
                },
            }
        ],
    },
}
THING = {
    "apiVersion": "example.com/v1",
    "kind": "Thing",
    "metadata": {"name": "t"},
    "spec": {"values": [{"name": "a"}]},
}
OTHERS = {
    "metadata": {"name": "others.example.com"},
    "spec": {**THINGS["spec"], "names": {"plural": "others", "kind": "Other"}},
}
