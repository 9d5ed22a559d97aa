"""`tutti top nodes`: what nodes offer, what of it is used, and how large the holes are."""
