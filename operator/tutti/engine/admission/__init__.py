"""The one decision: quota and nodes for a whole workload, or why not."""
