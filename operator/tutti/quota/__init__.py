"""Who may use how much: cohorts, flavors, borrowing and lending."""
