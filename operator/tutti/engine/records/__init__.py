"""Records at the bottom of the engine: what it is told, wants done and says. They import no rule."""
