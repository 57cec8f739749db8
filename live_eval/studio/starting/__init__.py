"""Start runs from a page: their settings, commands and processes."""
