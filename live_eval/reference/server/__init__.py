"""Serve the reference endpoint over HTTP, WebSocket and WebRTC."""
