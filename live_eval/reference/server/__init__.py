"""The reference endpoint's server: HTTP, WebSocket and WebRTC."""
