"""HTTP server support: connection limits, message framing, hosts and dates."""
