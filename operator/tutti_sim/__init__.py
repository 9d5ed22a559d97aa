"""The embedded cluster: a Kubernetes API server in memory, hollow nodes, and workloads for them."""
