"""What was observed is taken in: which pods belong together, and what they ask for together."""
