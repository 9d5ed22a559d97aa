"""What stands behind the nodes of a cluster, so far as a story may add to it, switch it off, and take it away."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable
from typing import Protocol

from kubernetes import client

GPUS = 2


class Machines(Protocol):
    """The machines of one kind of cluster.

    Attributes:
        can_die: Why none can be switched off and go on as if nothing were; "" where they can.
        can_come: Why there can be no more of them; "" where there can.
        forgets: Why what one runs ends with its kubelet; "" where it goes on.
    """

    can_die: str
    can_come: str
    forgets: str

    def add(self, name: str, gpus: int = GPUS) -> None:
        """Have one more node, ready for pods."""
        ...

    def remove(self, name: str) -> None:
        """Take a machine away for good, and its node."""
        ...

    def off(self, name: str) -> None:
        """Have a node's kubelet die where it stands: it says nothing, and ends no pod."""
        ...

    def on(self, name: str) -> None:
        """Have it come back after that; what it ran is gone."""
        ...


class Pretended:
    """Node objects with no kubelet behind them: a story plays its part."""

    can_die = "there are no kubelets that could die, and no controllers that would notice"
    can_come = ""
    forgets = ""

    def __init__(self, connect: Callable[[], client.ApiClient]) -> None:
        self._connect = connect

    def add(self, name: str, gpus: int = GPUS) -> None:
        """Make the object of a node."""
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "500", "nvidia.com/gpu": str(gpus)}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        node = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
        }
        with self._connect() as api:
            client.CoreV1Api(api).create_node(node)

    def remove(self, name: str) -> None:
        """Delete the object."""
        with self._connect() as api, contextlib.suppress(client.ApiException):  # a story may have lost it already
            client.CoreV1Api(api).delete_node(name)

    def off(self, name: str) -> None:
        """There is nothing to switch off."""
        raise NotImplementedError(f"{name}: {self.can_die}")

    def on(self, name: str) -> None:
        """There is nothing to switch on."""
        raise NotImplementedError(f"{name}: {self.can_die}")


class Hollow(Pretended):
    """The embedded cluster: an annotation is the switch of a hollow node."""

    can_die = ""
    forgets = "its containers are dead, as after a power cut"

    def off(self, name: str) -> None:
        """Pull the plug."""
        self._switch(name, "off")

    def on(self, name: str) -> None:
        """Put it in again."""
        self._switch(name, None)

    def _switch(self, name: str, state: str | None) -> None:
        with self._connect() as api:
            client.CoreV1Api(api).patch_node(name, {"metadata": {"annotations": {"sim.tutti.dev/power": state}}})


class Containers:
    """kind: a node is a container, and its kubelet a unit of systemd in it."""

    can_die = ""
    can_come = "a worker of kind comes back only when its container is started again"
    forgets = ""

    def add(self, name: str, gpus: int = GPUS) -> None:
        """There are as many as e2e/kind.yaml says."""
        raise NotImplementedError(f"{name} with {gpus} GPUs: {self.can_come}")

    def remove(self, name: str) -> None:
        """None is taken away."""
        raise NotImplementedError(f"{name}: {self.can_come}")

    def off(self, name: str) -> None:
        """Stop the kubelet, and nothing that it runs."""
        self._kubelet(name, "stop")

    def on(self, name: str) -> None:
        """Start it again."""
        self._kubelet(name, "start")

    def _kubelet(self, name: str, verb: str) -> None:
        subprocess.run(["docker", "exec", name, "systemctl", verb, "kubelet"], check=True, capture_output=True)
