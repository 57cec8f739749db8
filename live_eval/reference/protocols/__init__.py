"""Protocols of the reference endpoint, one module per dialect."""
