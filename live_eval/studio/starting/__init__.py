"""Start runs from a page: settings, commands and processes."""
