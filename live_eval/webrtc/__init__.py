"""The answering side of WebRTC, for the reference endpoint and the studio's pages."""
