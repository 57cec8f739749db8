"""Sockets whose reads carry the kernel's time stamps, for both ends of a connection."""
