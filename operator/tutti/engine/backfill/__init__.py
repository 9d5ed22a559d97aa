"""Room and quota that are kept for the head of a queue, and who is let by."""
