"""The command line: tutti run, demo, cluster, replay."""
