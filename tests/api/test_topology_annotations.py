"""Annotations that say how near pods are to be: Kueue's, with its prefix or with ours."""

from __future__ import annotations

import pytest

from tests.api.annotated_pods import SETTINGS, near_by
from tutti.api.conventions import ConventionError, PodTopologyRequest, membership_of


@pytest.mark.parametrize(
    ("notes", "claim"),
    [
        ({}, None),
        ({"unconstrained_topology": "false"}, None),
        ({"unconstrained_topology": "true"}, PodTopologyRequest()),
        ({"required_topology": "rack"}, PodTopologyRequest("Required", "rack")),
        (
            {"preferred_topology": "example.com/rack", "group_name": "g"},
            PodTopologyRequest("Preferred", "example.com/rack", (), "g"),
        ),
        (
            {"slice_required_topology": "rack", "slice_size": "4"},
            PodTopologyRequest(slices=(("rack", 4),)),
        ),
        (
            {
                "required_topology": "zone",
                "slice_required_topology_constraints": '[{"topology": "block", "size": 8}, {"topology": "rack", "size": 4}]',
            },
            PodTopologyRequest("Required", "zone", (("block", 8), ("rack", 4))),
        ),
    ],
)
@pytest.mark.parametrize("project", ["kueue.x-k8s.io", "scheduling.tutti.dev"])
def test_annotations_on_topology_are_those_of_kueue_with_its_prefix_or_ours(project, notes, claim):
    # kubernetes-sigs/kueue, apis/kueue/v1beta2/topology_types.go (0.20)
    assert membership_of(near_by(project, **notes), SETTINGS).topology == claim


def test_a_problem_with_topology_names_the_annotation_that_was_written():
    with pytest.raises(ConventionError, match=r"scheduling\.tutti\.dev/podset-slice-size\]: must be given"):
        membership_of(near_by("scheduling.tutti.dev", slice_required_topology="rack"), SETTINGS)
