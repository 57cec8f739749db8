"""How far a judge can be trusted: its repeats, known degradations, people's labels and other judges.

``docs/audit.md`` explains each metric.
"""
