"""Recognise speech and generate replies for the reference endpoint."""
