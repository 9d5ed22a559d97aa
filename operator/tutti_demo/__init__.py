"""The demo: a cluster of hollow nodes, the operator, and a small play in three acts that shows what it is for."""
