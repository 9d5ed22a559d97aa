"""Placing pods near one another: blocks, racks and nodes as one tree, and which of its domains pods go to."""
