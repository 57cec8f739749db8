"""Inject faults in the reference endpoint: catalogue, scripts and timing."""
