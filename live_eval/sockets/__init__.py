"""Provide sockets with kernel timestamps on reads, for both ends of a connection."""
