"""What makes the embedded cluster outlive its process: every change in a SQLite file, and the way back from it."""
