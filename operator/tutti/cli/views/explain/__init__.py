"""`tutti explain workload`: gate by gate, with numbers, why a workload waits and what would unblock it."""
