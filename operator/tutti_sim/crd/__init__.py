"""Custom resources: definitions, structural schemas, and rules in CEL."""
