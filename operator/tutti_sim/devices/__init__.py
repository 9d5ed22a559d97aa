"""The kinds of resource.k8s.io: their defaults, what is wrong with them, and what their expressions may cost."""
