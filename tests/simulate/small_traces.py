"""Small traces on two nodes of four GPUs: jobs, the files that say where they are played, and what comes of them."""

from __future__ import annotations

import io
from pathlib import Path

from tutti.engine.journal import JournalWriter
from tutti_simulate.jobs import GPU, JobPods, TraceJob, queues_of
from tutti_simulate.playing import Played, Rules, play
from tutti_simulate.setting import Setting, find_queues, setting_of, with_queues

EXACT = Rules(step=0.0)
NODES = "nodes:\n  - {name: gpu, count: 2, resources: {cpu: 16, memory: 64Gi, nvidia.com/gpu: 4}}\n"


def job(name: str, at: float, seconds: float, gpus: int = 4, pods: int = 1, queue: str = "q", **more) -> TraceJob:
    return TraceJob(name, at, seconds, (JobPods(pods, {GPU: gpus, "cpu": 1000}),), queue, **more)


def gpu_queue(line: str) -> str:
    """Documents of the ClusterQueue q, which has all GPUs of the two nodes, with a line more in its spec."""
    return f"""
---
apiVersion: scheduling.tutti.dev/v1alpha1
kind: ResourceFlavor
metadata: {{name: gpu}}
---
apiVersion: scheduling.tutti.dev/v1alpha1
kind: ClusterQueue
metadata: {{name: q}}
spec:
  namespaceSelector: {{}}
  {line}
  resourceGroups:
    - coveredResources: [cpu, nvidia.com/gpu]
      flavors:
        - name: gpu
          resources: [{{name: cpu, nominalQuota: 32}}, {{name: nvidia.com/gpu, nominalQuota: 8}}]
---
apiVersion: scheduling.tutti.dev/v1alpha1
kind: LocalQueue
metadata: {{name: q, namespace: work}}
spec: {{clusterQueue: q}}
"""


def written(folder: Path, text: str, before: Setting | None = None) -> Setting:
    path = folder / "cluster.yaml"
    path.write_text(text)
    return setting_of([path], before)


def played(setting: Setting, *jobs: TraceJob, rules: Rules = EXACT, sink: io.BytesIO | None = None) -> Played:
    names = queues_of(jobs)
    setting, queues = find_queues(with_queues(setting, names, (GPU, "cpu")), names, {})
    return play(
        jobs, setting, queues, rules,
        journal=lambda one: None if sink is None else JournalWriter(sink, one.configuration),
    )  # fmt: skip


def times(found: Played) -> list[tuple[float | None, float | None]]:
    return [(one.first, one.ended) for one in found.jobs]
