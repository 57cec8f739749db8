"""A page talks with an endpoint: its microphone comes over WebRTC, and the reply goes back."""
