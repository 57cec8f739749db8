"""Tap and answer WebRTC connections, for transports, the reference endpoint and the studio's pages."""
