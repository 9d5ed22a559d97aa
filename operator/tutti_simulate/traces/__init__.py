"""Readers of traces: each turns the lines of one format into jobs, and says which lines it could not."""
