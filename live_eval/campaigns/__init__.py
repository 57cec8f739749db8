"""Ordered runs against one endpoint with one document: latency profiles and turn-taking probes."""
