"""Run a session of the reference endpoint, independently of protocols and sockets."""
