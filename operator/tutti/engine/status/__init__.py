"""What is told to people and machines, and no more often than it changes."""
