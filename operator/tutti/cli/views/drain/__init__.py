"""`tutti drain-check`: what would become of a node's pods, their gangs and budgets if it were drained."""
