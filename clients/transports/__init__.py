"""WebSocket, WebRTC and HTTP transports."""
