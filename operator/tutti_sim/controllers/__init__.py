"""The controllers that a cluster needs to be usable: namespaces, garbage, Jobs."""
