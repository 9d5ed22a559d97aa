"""Cards that pods share: columns over all nodes, who has what of them, how often pods fit, and which they get."""
