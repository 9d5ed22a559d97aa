"""The wire: credentials, a thin client, informers, the lease, and the writers. Only this room talks to a cluster."""
