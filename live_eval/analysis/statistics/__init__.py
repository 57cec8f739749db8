"""Compute quantiles, intervals and tests for turns that are dependent within scripts."""
