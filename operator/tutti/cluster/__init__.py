"""What is observed: nodes and pods as columns, and transactions on them."""
