"""Fault injection in the reference endpoint: fault catalogue, fault scripts and fault timing."""
