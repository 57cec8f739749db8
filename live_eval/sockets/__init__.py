"""Sockets whose reads carry kernel timestamps, for both ends of a connection."""
