"""Faults on demand: what goes wrong between a client and the API server, seeded, so that it goes wrong again."""
