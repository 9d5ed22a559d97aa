"""Which pods belong together, and what they ask for together."""
