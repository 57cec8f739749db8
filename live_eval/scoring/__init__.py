"""Scoring: judges of recorded runs."""
