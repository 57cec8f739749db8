"""Run campaigns: ordered runs against one endpoint, for latency profiles and turn-taking probes."""
