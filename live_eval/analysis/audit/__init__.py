"""Audit the reliability of judges: repeats, known degradations, human labels and other judges.

``docs/how-to/audit.md`` explains each metric.
"""
