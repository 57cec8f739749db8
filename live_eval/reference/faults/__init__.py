"""Faults that the reference endpoint injects: what there is, scripts of them, and when each one strikes."""
