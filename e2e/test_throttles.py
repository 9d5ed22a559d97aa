"""Throttles as kube-throttler's users write them (pfnet/kube-throttler 42dd1ec); the manifest is the page's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness.guests import serve
from e2e.harness.story import Story

GROUP, VERSION = "schedule.k8s.everpeace.github.com", "v1alpha1"
PAGE = Path(__file__).parent.parent / "docs" / "throttles.md"
LABELS = {"tier": "experiment"}


def of_the_page(kind: str) -> Any:
    """The manifest of a kind on the page."""
    blocks = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.+?)```", PAGE.read_text(), re.DOTALL)]
    return next(one for one in blocks if one["kind"] == kind)


@pytest.fixture
def throttled(story: Story) -> Story:
    """An operator that is configured as the page says, and the throttle of the page."""
    serve(story.api, GROUP, VERSION, "Throttle")
    story.queue("team", 8)
    story.start_operator(throttles=of_the_page("TuttiConfiguration")["throttles"], leaderElection={"enabled": False})
    story.custom.create_namespaced_custom_object(GROUP, VERSION, story.namespace, "throttles", of_the_page("Throttle"))
    story.wait(lambda: bool(status(story).get("calculatedThreshold")), "the throttle to be read")
    return story


def status(story: Story) -> dict[str, Any]:
    found: Any = story.custom.get_namespaced_custom_object(GROUP, VERSION, story.namespace, "throttles", "experiments")
    return dict(found.get("status", {}))


def allow(story: Story, pods: int) -> None:
    patch = {"spec": {"threshold": {"resourceCounts": {"pod": pods}}}}
    where = (GROUP, VERSION, story.namespace, "throttles", "experiments")
    story.custom.patch_namespaced_custom_object(*where, patch)


def gang(story: Story, name: str, size: int) -> None:
    story.object("PodGroup", name, {"schedulingPolicy": {"gang": {"minCount": size}}, "queueName": "team"})
    for number in range(size):
        story.pod(f"{name}-{number}", gpus=1, labels={**LABELS, "scheduling.tutti.dev/pod-group": name})


def bound(story: Story) -> set[str]:
    return {one.metadata.name for one in story.pods("") if one.spec.node_name}


def why(story: Story, pod: str) -> tuple[str, str]:
    found = story.core.read_namespaced_pod(pod, story.namespace)
    return next(
        ((one.reason, one.message) for one in found.status.conditions or () if one.type == "PodScheduled"), ("", "")
    )


def test_a_gang_waits_for_its_throttle_as_a_whole_and_says_why(throttled: Story) -> None:
    gang(throttled, "a", 3)
    throttled.wait(lambda: why(throttled, "a-0")[0] == "Throttled", "the gang to wait for the throttle")
    assert "never allows more than 2 pods at once, and it needs 3 pods" in why(throttled, "a-0")[1]
    assert bound(throttled) == set()

    allow(throttled, 3)

    throttled.wait(lambda: bound(throttled) == {"a-0", "a-1", "a-2"}, "the gang to start")
    throttled.wait(
        lambda: status(throttled).get("used", {}).get("resourceCounts") == {"pod": 3}, "the status to follow"
    )
    assert status(throttled)["throttled"]["resourceCounts"] == {"pod": True}


def test_an_operator_that_begins_anew_counts_those_who_run(throttled: Story) -> None:
    gang(throttled, "a", 2)
    throttled.wait(lambda: len(bound(throttled)) == 2, "the gang to start")
    throttled.kill_operator()
    throttled.pod("late", gpus=1, labels={**LABELS, "scheduling.tutti.dev/queue-name": "team"})
    throttled.start_operator(throttles={"name": "kube-throttler"}, leaderElection={"enabled": False})
    throttled.wait(lambda: why(throttled, "late")[0] == "Throttled", "the late pod to wait")
    throttled.core.delete_namespaced_pod("a-0", throttled.namespace, grace_period_seconds=0)
    throttled.wait(lambda: "late" in bound(throttled), "the late pod to start")
