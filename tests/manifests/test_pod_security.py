"""The rules that the operator's pod is held to: each field that the level forbids is noticed."""

from __future__ import annotations

import copy

import pytest

from tests.manifests.pod_security import restricted_violations

GOOD = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {"name": "c", "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
    ],
}


def test_a_pod_that_gives_everything_up_is_fine():
    assert restricted_violations(GOOD) == []


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("hostNetwork",), True, "hostNetwork is true"),
        (("volumes",), [{"name": "v", "hostPath": {"path": "/"}}], "volumes: hostPath of v"),
        (("securityContext", "runAsNonRoot"), False, "containers.c: runAsNonRoot is not true"),
        (("securityContext", "runAsUser"), 0, "containers.c: runAsUser is 0"),
        (("securityContext", "seccompProfile"), {"type": "Unconfined"}, "containers.c: no seccompProfile"),
        (("securityContext", "sysctls"), [{"name": "kernel.msgmax"}], "securityContext.sysctls: kernel.msgmax"),
        (("containers", 0, "securityContext", "privileged"), True, "containers.c: privileged"),
        (
            ("containers", 0, "securityContext", "allowPrivilegeEscalation"),
            True,
            "containers.c: allowPrivilegeEscalation is not false",
        ),
        (("containers", 0, "securityContext", "capabilities"), {}, "containers.c: capabilities are not dropped"),
        (
            ("containers", 0, "securityContext", "capabilities", "add"),
            ["NET_ADMIN"],
            "containers.c: capabilities are added",
        ),
        (("containers", 0, "securityContext", "procMount"), "Unmasked", "containers.c: procMount"),
        (("containers", 0, "ports"), [{"hostPort": 80}], "containers.c: hostPort"),
        (("containers", 0, "securityContext", "runAsUser"), 0, "containers.c: runAsUser is 0"),
    ],
)
def test_each_field_that_the_level_forbids_is_noticed(path, value, said):
    pod = copy.deepcopy(GOOD)
    place = pod
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert restricted_violations(pod) == [said]
