"""The plugins of kube-scheduler's default profile, one per file, and ours for flavors."""
