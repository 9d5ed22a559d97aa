"""Pictures and tables of pages, each drawn of what a real run came to: `make pictures` runs them all again."""
