"""`tutti gangs`: every gang, how far it has come, and why it waits."""
