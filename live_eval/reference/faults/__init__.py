"""Fault injection in the reference endpoint: the fault catalogue, fault scripts, and fault timing."""
