"""From a reservation to the end: held, bound, watched, taken out."""
