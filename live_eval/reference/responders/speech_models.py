"""Run the voice detector and the recogniser in separate threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import soxr

from live_eval.audio import Audio, Codec, decode, int16_to_float
from live_eval.errors import LiveEvalError
from live_eval.reference.engine.engine import PCM_24K
from live_eval.speech.recognition import Recogniser
from live_eval.speech.voice_activity import VAD_RATE_HZ, StreamingVad

__all__ = ["DetectionStream", "NotHeardError", "SpeechModels"]


class NotHeardError(LiveEvalError):
    """Raised when speech could not be recognised. The message contains the reason."""


class DetectionStream:
    """Run the voice detector on one audio stream. Not thread-safe."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._vad = StreamingVad()
        self._resampler: soxr.ResampleStream | None = None
        if codec.rate_hz != VAD_RATE_HZ:
            self._resampler = soxr.ResampleStream(codec.rate_hz, VAD_RATE_HZ, 1, dtype="int16")

    def feed(self, data: bytes) -> list[float]:
        """Process whole samples; return the speech probability of each completed window."""
        pcm = decode(data, self._codec)
        if self._resampler is not None:
            pcm = np.asarray(self._resampler.resample_chunk(pcm), np.int16)
        return self._vad.feed(pcm)


class SpeechModels:
    """Run the voice detector and the recogniser outside the event loop."""

    def __init__(self, recogniser: Recogniser | None, lacking: str = "", *, workers: int = 2) -> None:
        self._recogniser = recogniser
        self._lacking = lacking
        # Separate, since detection must run in real time and not queue behind recognition.
        self._detecting = ThreadPoolExecutor(1, "detector")
        self._recognising = ThreadPoolExecutor(workers, "recogniser")

    @property
    def lacking(self) -> str | None:
        """The reason why speech recognition is unavailable, or None if it is available."""
        return self._lacking if self._recogniser is None else None

    async def detect(self, stream: DetectionStream, data: bytes) -> list[float]:
        """Feed audio to a stream. Await each call before the next one for the same stream."""
        return await asyncio.get_running_loop().run_in_executor(self._detecting, stream.feed, data)

    async def open_stream(self, codec: Codec) -> DetectionStream:
        """Open a detection stream."""
        return await asyncio.get_running_loop().run_in_executor(self._detecting, DetectionStream, codec)

    async def recognise(self, data: bytes, codec: Codec) -> str:
        """Recognise speech in its received encoding.

        Raises:
            NotHeardError: The recogniser is missing or failed.
        """
        return await asyncio.get_running_loop().run_in_executor(
            self._recognising, self._recognise, data, codec
        )

    def _recognise(self, data: bytes, codec: Codec) -> str:
        if self._recogniser is None:
            raise NotHeardError(self._lacking)
        try:
            audio = Audio(int16_to_float(decode(data, codec)), codec.rate_hz)
            return self._recogniser.transcribe(audio, words=False).text
        except (LiveEvalError, RuntimeError, ValueError) as error:
            raise NotHeardError(f"the recogniser failed: {error}") from error

    def warm_up(self) -> None:
        """Run both models once to make the first session fast."""
        DetectionStream(PCM_24K).feed(bytes(4_800))
        if self._recogniser is not None:
            noise = np.random.default_rng(0).normal(0, 0.01, 16_000).astype(np.float32)
            self._recogniser.transcribe(Audio(noise, 16_000), words=False)

    async def close(self) -> None:
        """Finish running work and stop the threads."""
        await asyncio.to_thread(self._detecting.shutdown)
        await asyncio.to_thread(self._recognising.shutdown)
