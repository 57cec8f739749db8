"""The answering side of WebRTC, for the built-in endpoint and the studio's pages."""
