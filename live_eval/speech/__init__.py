"""Process speech: boundaries, voice activity, recognition and synthesis."""
