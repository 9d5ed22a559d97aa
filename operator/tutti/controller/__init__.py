"""The operator: kopf handlers, webhooks, start and stop, metrics. Only this room knows kopf."""
