"""Handle text: message limits, durations, nested mappings, quoting and wording."""
