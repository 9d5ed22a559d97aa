"""Tutti: a secondary scheduler for Kubernetes that decides quota and placement for a whole gang at once."""

__version__ = "0.1.0"
