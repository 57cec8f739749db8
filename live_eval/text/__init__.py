"""Limits on messages, durations, quotation and wording."""
