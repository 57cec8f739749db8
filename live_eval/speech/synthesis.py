"""The offline voice: hibari-tts, American English, with its weights inside the package.

Source: https://pypi.org/project/hibari-tts (Apache-2.0). Its other voices are used only if they are on this
machine; nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import threading

import numpy as np

from live_eval.audio import Audio
from live_eval.errors import UsageError

__all__ = ["MAX_SPEED", "MIN_SPEED", "Voice", "available"]

MIN_SPEED = 0.5
MAX_SPEED = 2.0

_HINT = "pip install 'live-eval[local]'"


class Voice:
    """A voice in memory; the same text always gives the same samples. Safe to share between threads.

    Args:
        name: A voice of hibari; "heart" is in the package.
        threads: CPU threads for one utterance; with one, synthesis runs at about a hundred times real time.
        seed: Seed of the noise in the voice.

    Raises:
        UsageError: hibari-tts or the voice is missing; the message says what to do.
    """

    def __init__(self, name: str = "heart", *, threads: int = 1, seed: int = 0) -> None:
        problem = available(name)
        if problem is not None:
            raise UsageError(problem)
        from hibari import Hibari

        self._seed = seed
        self._lock = threading.Lock()
        self._hibari = Hibari(voice=name, threads=threads)

    def speak(self, text: str, *, speed: float = 1.0) -> Audio:
        """Return an English text as speech at 24_000 Hz; no samples if it has no words.

        Args:
            text: The text.
            speed: Pace of speech, 0.5 to 2; 1 is the voice's natural pace.

        Raises:
            UsageError: The speed is out of range.
        """
        if not MIN_SPEED <= speed <= MAX_SPEED:
            raise UsageError(f"expected a speed of {MIN_SPEED} to {MAX_SPEED}, but it is {speed}")
        with self._lock:
            samples = self._hibari(text, speed, self._seed)
        limit = np.float32(32767 / 32768)
        return Audio(np.clip(np.asarray(samples, np.float32), -1, limit), int(self._hibari.sample_rate))

    def sentences(self, text: str) -> list[str]:
        """Return the sentences of a text, which the voice speaks one by one; none if it is blank."""
        return list(self._hibari.split_sentences(text))


def available(name: str = "heart") -> str | None:
    """Return why this voice cannot be used on this machine and what to do about it, or None if it can."""
    if importlib.util.find_spec("hibari") is None:
        return f"the offline voice needs the package hibari-tts, which is not installed: {_HINT}"
    from hibari.voices import VOICES, voice_path

    if name not in VOICES:
        return f"unknown voice {name!r}; hibari has: {', '.join(VOICES)}"
    try:
        voice_path(name, download_missing=False)
    except FileNotFoundError as error:
        return f'the voice {name!r} is missing: expected {error}; "heart" is in the package'
    return None
