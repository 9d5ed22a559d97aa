"""What is read from the engine's state when somebody asks for metrics, and at no other time."""
