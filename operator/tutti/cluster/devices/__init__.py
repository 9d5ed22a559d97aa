"""Devices of dynamic resource allocation: what drivers publish, who holds what, and what pods ask for of it."""
