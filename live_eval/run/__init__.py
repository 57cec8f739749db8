"""Run sessions: the run file, the plan, the runner and its retries."""
