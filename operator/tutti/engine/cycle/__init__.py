"""The cycle: the six steps of a turn, what is done once a turn for all, and all that the rooms know together."""
