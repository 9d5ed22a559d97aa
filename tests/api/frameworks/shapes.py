"""Objects of each project in the shape of its documentation: how many pods each makes stands with the tests."""

from __future__ import annotations

TEMPLATE = "{spec: {schedulerName: tutti, containers: [{name: main}]}}"

JOB = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: train, labels: {{kueue.x-k8s.io/queue-name: team}}}}
spec: {{completionMode: Indexed, parallelism: 4, completions: 4, template: {TEMPLATE}}}
"""

JOB_SET = f"""
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: js}}
spec:
  replicatedJobs:
  - name: driver
    template: {{spec: {{parallelism: 1, completions: 1, template: {TEMPLATE}}}}}
  - name: workers
    replicas: 2
    template: {{spec: {{parallelism: 3, completions: 3, template: {TEMPLATE}}}}}
"""

TRAIN_JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: tune, labels: {kueue.x-k8s.io/queue-name: team}}
spec:
  runtimeRef: {name: torchtune}
  trainer: {numNodes: 2}
"""

TRAIN_JOB_SET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
owner: TrainJob/tune
metadata: {name: tune}
spec:
  replicatedJobs:
  - name: dataset-initializer
    template: {spec: {parallelism: 1, completions: 1, template: {spec: {}}}}
  - name: model-initializer
    template: {spec: {parallelism: 1, completions: 1, template: {spec: {}}}}
  - name: node
    dependsOn:
    - {name: dataset-initializer, status: Complete}
    - {name: model-initializer, status: Complete}
    template: {spec: {parallelism: 2, completions: 2, template: {spec: {}}}}
"""


def kubeflow(kind: str, at: str, roles: str, *, policy: str = "", more: str = "") -> str:
    return f"""
apiVersion: kubeflow.org/{"v2beta1" if kind == "MPIJob" else "v1"}
kind: {kind}
metadata: {{name: train}}
spec: {{runPolicy: {{{policy}}}, {at}: {{{roles}}}, {more}}}
"""


def replica(role: str, count: int | None = None, template: str = TEMPLATE) -> str:
    replicas = "" if count is None else f"replicas: {count}, "
    return f"{role}: {{{replicas}template: {template}}}"


RAY_SPEC = f"""
    headGroupSpec: {{template: {TEMPLATE}}}
    workerGroupSpecs:
    - {{groupName: small, replicas: 2, minReplicas: 1, maxReplicas: 5, template: {TEMPLATE}}}
    - {{groupName: hosts, replicas: 1, numOfHosts: 4, template: {TEMPLATE}}}
"""
RAY_CLUSTER = f"""
apiVersion: ray.io/v1
kind: RayCluster
metadata: {{name: ray}}
spec:{RAY_SPEC}
"""
RAY_JOB = f"""
apiVersion: ray.io/v1
kind: RayJob
metadata: {{name: rj, labels: {{scheduling.tutti.dev/queue-name: team}}}}
spec:
  submitterPodTemplate: {TEMPLATE}
  rayClusterSpec:{RAY_SPEC.replace("    ", "      ")}
status: {{rayClusterName: rj-abcde}}
"""
RAY_JOB_CLUSTER = f"""
apiVersion: ray.io/v1
kind: RayCluster
owner: RayJob/rj
metadata: {{name: rj-abcde}}
spec:{RAY_SPEC}
"""

LEADER_WORKER_SET = f"""
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: vllm}}
spec:
  replicas: 2
  leaderWorkerTemplate: {{size: 4, leaderTemplate: {TEMPLATE}, workerTemplate: {TEMPLATE}}}
"""
LEADERS = f"""
apiVersion: apps/v1
kind: StatefulSet
owner: LeaderWorkerSet/vllm
metadata: {{name: vllm}}
spec: {{replicas: 2, podManagementPolicy: Parallel, template: {TEMPLATE}}}
"""
WORKERS = f"""
apiVersion: apps/v1
kind: StatefulSet
owner: Pod/vllm-0
metadata: {{name: vllm-0}}
spec: {{replicas: 3, podManagementPolicy: Parallel, template: {TEMPLATE}}}
"""

SPARK = """
apiVersion: sparkoperator.k8s.io/v1beta2
kind: SparkApplication
metadata: {name: pi}
spec:
  mode: cluster
  driver: {cores: 1, schedulerName: tutti}
  executor: {instances: 3, schedulerName: tutti}
"""

STATEFUL_SET = f"""
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: db}}
spec: {{replicas: 3, podManagementPolicy: Parallel, template: {TEMPLATE}}}
"""

VOLCANO_JOB = f"""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: mpi}}
spec:
  minAvailable: 3
  queue: default
  tasks:
  - {{name: master, replicas: 1, template: {TEMPLATE}}}
  - {{name: worker, replicas: 4, template: {TEMPLATE}}}
"""


def job_of(name: str, owner: str) -> str:
    """A Job that another object makes."""
    return f"""
apiVersion: batch/v1
kind: Job
owner: {owner}
metadata: {{name: {name}}}
spec: {{completionMode: Indexed, parallelism: 1, completions: 1, template: {TEMPLATE}}}
"""
