"""Plan and run sessions, with retries, from the settings in a run file."""
