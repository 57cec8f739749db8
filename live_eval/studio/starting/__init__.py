"""Start runs from a page: convert settings to commands, and run the commands."""
