"""Test turn-taking with probes that overlap the endpoint's speech."""
