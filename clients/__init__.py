"""Endpoint dialects, one per module, and the transports that carry them."""
