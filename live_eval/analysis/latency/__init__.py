"""Latency metrics of a campaign's runs, computed from stored turns by pure functions."""
