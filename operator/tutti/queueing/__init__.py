"""Who is next: order, backoff, and what wakes what."""
