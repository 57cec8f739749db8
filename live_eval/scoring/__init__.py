"""Scoring: run judges on recorded runs."""
