"""Runs and scorings spread over the machines of a Ray cluster (extra ``ray``).

The driver, which is the command itself, plans, limits, retries and is the one writer of the store. The nodes
only run sessions and judges. Everything that passes through Ray is encrypted (`live_eval.cluster.sealing`).
"""
