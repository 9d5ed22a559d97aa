"""What all kinds share: errors, names, selectors, times, quantities and metadata rules."""
