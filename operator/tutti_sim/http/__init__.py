"""The wire: routes, content types, streams, discovery and OpenAPI."""
