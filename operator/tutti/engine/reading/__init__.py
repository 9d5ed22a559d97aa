"""What users wrote, as the engine reads it."""
