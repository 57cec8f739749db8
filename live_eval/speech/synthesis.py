"""Synthesise speech offline with hibari-tts (American English, weights in the package).

Source: https://pypi.org/project/hibari-tts (Apache-2.0). Further voices can be used if they are installed on
this machine; nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import threading

import numpy as np

from live_eval.audio import Audio
from live_eval.errors import UsageError
from live_eval.extras import install_command

__all__ = ["MAX_SPEED", "MIN_SPEED", "Voice", "available"]

_SEED = 0  # seed of the noise in the voice
MIN_SPEED = 0.5
MAX_SPEED = 2.0


class Voice:
    """A loaded voice. Equal texts produce equal samples. The methods are thread-safe.

    Args:
        name: Name of a hibari voice; the package includes "heart".

    Raises:
        UsageError: hibari-tts or the voice is missing; the message describes the fix.
    """

    def __init__(self, name: str = "heart") -> None:
        problem = available(name)
        if problem is not None:
            raise UsageError(problem)
        from hibari import Hibari

        self._lock = threading.Lock()
        self._hibari = Hibari(voice=name, threads=1)

    def speak(self, text: str, *, speed: float = 1.0) -> Audio:
        """Synthesise English text at 24_000 Hz; the audio is empty if there are no words.

        Args:
            speed: Relative speech rate, 0.5 to 2; 1 is the voice's natural rate.

        Raises:
            UsageError: The speed is out of range.
        """
        if not MIN_SPEED <= speed <= MAX_SPEED:
            raise UsageError(f"expected a speed of {MIN_SPEED} to {MAX_SPEED}, got {speed}")
        with self._lock:
            samples = self._hibari(text, speed, _SEED)
        limit = np.float32(32767 / 32768)
        return Audio(np.clip(np.asarray(samples, np.float32), -1, limit), int(self._hibari.sample_rate))

    def sentences(self, text: str) -> list[str]:
        """Split text into the sentences that the voice speaks one at a time; empty if the text is blank."""
        return list(self._hibari.split_sentences(text))


def available(name: str = "heart") -> str | None:
    """Return why a voice cannot be used on this machine and how to fix it, or None if it can."""
    if importlib.util.find_spec("hibari") is None:
        hint = install_command("local")
        return f"the offline voice requires the package hibari-tts, which is not installed: {hint}"
    from hibari.voices import VOICES, voice_path

    if name not in VOICES:
        return f"unknown voice {name!r}; expected one of {', '.join(VOICES)}"
    try:
        voice_path(name, download_missing=False)
    except FileNotFoundError as error:
        return f'the voice {name!r} is missing ({error}); the voice "heart" is in the package'
    return None
