"""HTTP servers of ours: limits on connections, messages on the wire, hosts and dates."""
