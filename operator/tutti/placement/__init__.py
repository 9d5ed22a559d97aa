"""Where pods can go: filter and score plugins over whole columns, and the packing of gangs."""
