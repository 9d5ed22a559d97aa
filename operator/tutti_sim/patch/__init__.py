"""Patches: merge, JSON, strategic merge, server-side apply, and who manages which field."""
