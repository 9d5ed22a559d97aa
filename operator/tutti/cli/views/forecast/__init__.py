"""`tutti what-if`: what would become of whom if something were submitted or changed."""
