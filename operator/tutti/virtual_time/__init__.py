"""A cluster in virtual time around one engine: what is decided is carried out at once, and nobody waits."""
