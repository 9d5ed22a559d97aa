"""`tutti bench`: what the command line shows and starts; the benchmark itself is in `tutti.bench`."""
