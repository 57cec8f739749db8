"""Judges, one per module."""
