"""Runs and scorings spread over the machines of a Ray cluster (extra ``ray``).

The driver, which is the command itself, plans, limits, tries again and is the one writer of the store. The
nodes only hold sessions and run judges. What passes through Ray is sealed (`live_eval.cluster.sealing`).
"""
