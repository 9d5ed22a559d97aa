"""The switches of a cluster's kubelets, for stories about nodes that are lost."""

from __future__ import annotations

from e2e.harness.kubelets import is_ready
from e2e.harness.processes import PATIENCE
from e2e.harness.story import Story

SOON = PATIENCE
"""Seconds within which a cluster has noticed that a node is silent, or is there again, and has done what follows."""


class Power:
    """Whoever kills kubelets, and has them come back in the end."""

    def __init__(self, story: Story) -> None:
        self._story, self._dead = story, set[str]()

    def off(self, node: str) -> None:
        """A kubelet dies: nobody confirms any more that its pods end."""
        self._story.cluster.machines.off(node)
        self._dead.add(node)
        self._story.wait(lambda: not is_ready(self._story.core, node), f"{node} to be silent for too long", SOON)

    def on(self, node: str) -> None:
        """It comes back, with nothing of what it ran."""
        self._story.cluster.machines.on(node)
        self._dead.discard(node)
        self._story.wait(lambda: is_ready(self._story.core, node), f"{node} to be ready again", SOON)

    def restore(self) -> None:
        """Have all come back."""
        for node in sorted(self._dead):
            self.on(node)
