"""Damage, reproducible by seed: to the audio, to the stream of bytes, and in the packet path."""
