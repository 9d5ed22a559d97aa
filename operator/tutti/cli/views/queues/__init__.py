"""`tutti queue`: who may use how much, who does, and who waits."""
