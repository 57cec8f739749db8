"""Text helpers: message limits, durations, quoting and wording."""
