"""Run sessions: run file, plan, runner and retries."""
