"""The reference endpoint's speech recognition and replies."""
