"""Distribute runs and scoring over the machines of a Ray cluster (the ``ray`` extra).

The driver is the command itself: it plans, enforces limits, retries, and is the only writer of the store.
Nodes only run sessions and judges. All data sent through Ray is encrypted (`live_eval.cluster.sealing`).
"""
