"""Who has to go so that others fit, and the room that is held for these until then."""
