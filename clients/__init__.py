"""Endpoint dialects, one per module, and their transports."""
