"""Run conversations between a page and an endpoint over WebRTC."""
