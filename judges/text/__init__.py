"""Helpers for text judges."""
