"""Conversations of a page with an endpoint, over WebRTC."""
