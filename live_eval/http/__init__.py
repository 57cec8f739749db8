"""Support HTTP servers with connection limits, message framing, hosts and dates."""
