"""Text helpers: message limits, durations, nested mappings, quoting and wording."""
