"""Hollow nodes: nodes that exist only as objects, and a kubelet that pretends to run pods on them."""
