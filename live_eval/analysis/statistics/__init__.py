"""Quantiles, intervals and tests for turns that depend on each other through their scripts."""
