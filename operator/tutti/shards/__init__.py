"""Which shard has what, and what of a cluster a shard's engine is told; pure, as the engine is."""
