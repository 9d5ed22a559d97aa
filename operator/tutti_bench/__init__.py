"""`tutti bench`: runs the YAML of Kubernetes' scheduler_perf against any cluster and any scheduler, from outside."""
