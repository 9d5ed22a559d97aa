"""`tutti doctor`: what goes wrong when Tutti is installed, looked for in a cluster, with the remedy for each."""
