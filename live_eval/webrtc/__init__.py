"""The answering side of WebRTC: for the built-in endpoint, and for pages of the studio."""
