"""Latency metrics of the runs of a campaign, computed from stored turns; pure functions."""
