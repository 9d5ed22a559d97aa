"""The built-in kinds: their types, defaults, validation and columns."""
