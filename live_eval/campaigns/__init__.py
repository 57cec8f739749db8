"""Campaigns: ordered runs against one endpoint with one document, for latency profiles and turn-taking
probes."""
