"""Paths as the API serves them (kubernetes.io/docs/reference/using-api/api-concepts)."""

import pytest

from tutti.kube.resources import LEASES, NODES, PODS, APIResource

QUEUES = APIResource("scheduling.tutti.dev", "v1alpha1", "clusterqueues", namespaced=False)


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        (PODS, (), "/api/v1/pods"),
        (PODS, ("team-a",), "/api/v1/namespaces/team-a/pods"),
        (PODS, ("team-a", "p", "binding"), "/api/v1/namespaces/team-a/pods/p/binding"),
        (NODES, (None, "n"), "/api/v1/nodes/n"),
        (NODES, ("", "n"), "/api/v1/nodes/n"),
        (LEASES, ("kube-system", "tutti"), "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/tutti"),
        (QUEUES, (None, "q", "status"), "/apis/scheduling.tutti.dev/v1alpha1/clusterqueues/q/status"),
        (PODS, ("team-a", "a/../b?"), "/api/v1/namespaces/team-a/pods/a%2F..%2Fb%3F"),
    ],
)
def test_a_path(resource, arguments, path):
    assert resource.path(*arguments) == path


@pytest.mark.parametrize(
    ("resource", "arguments", "complaint"),
    [
        (NODES, ("default",), "has no namespaces"),
        (PODS, (None, "p"), "needs a namespace"),
        (PODS, ("default", None, "status"), "needs the name"),
    ],
)
def test_what_names_no_path_is_refused(resource, arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        resource.path(*arguments)


def test_names_for_manifests_and_metrics():
    assert (PODS.api_version, PODS.label) == ("v1", "pods")
    assert (QUEUES.api_version, QUEUES.label) == ("scheduling.tutti.dev/v1alpha1", "clusterqueues.scheduling.tutti.dev")
