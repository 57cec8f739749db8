"""Speech in recordings: boundaries, voice activity, recognition and synthesis."""
