"""Sockets whose reads have kernel timestamps, for both ends of a connection."""
