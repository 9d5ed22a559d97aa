"""The revisioned store: objects, their history, and who watches them."""
