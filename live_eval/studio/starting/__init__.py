"""Runs that a page starts: their settings, commands and processes."""
