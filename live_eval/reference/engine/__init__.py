"""A session of the reference endpoint, independent of protocols and sockets."""
