"""Text files, limits on messages, dates of HTTP, and wording."""
