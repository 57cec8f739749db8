"""Audit the reliability of judges: repeats, known degradations, human labels and other judges.

``docs/reference/audit.md`` explains each metric.
"""
