"""Kueue's manifests (v1beta1 and v1beta2), rewritten as ours."""
