"""Rules of a site as plugins of Tutti: one of each kind, to be copied and changed."""
