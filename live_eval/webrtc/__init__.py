"""Answer WebRTC connections, for the reference endpoint and the studio's pages."""
