"""Who waits in which line, who is next, and when."""
