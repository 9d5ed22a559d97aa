"""Answers for people: what waits and why, who uses what, what is free, and what would break."""
