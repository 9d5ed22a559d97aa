"""What the stories run on: a cluster of some kind, the operator as a process, and words for telling a story."""
