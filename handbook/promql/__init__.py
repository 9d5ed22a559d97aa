"""As much of PromQL as dashboard and alerts are written in: read, checked, and evaluated without a Prometheus."""
