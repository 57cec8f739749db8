"""Compute latency metrics of a campaign's runs from stored turns, with pure functions."""
