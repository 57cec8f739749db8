"""Rate the audio quality of the reply with DistillMOS, a small network distilled from a large one.

Source: Stahl and Gamper, "Distillation and Pruning for Scalable Self-Supervised Representation-Based Speech
Quality Assessment" (ICASSP 2025). Network and weights are from the package ``distillmos`` (MIT): 16 kHz,
windows of 7.68 s at most 1 s apart, each normalised to full scale; the rating is the mean over the windows,
on the MOS scale from 1 to 5.

The network is sensitive to the resampler's response near 8 kHz, so replies are resampled as in the package
(torchaudio). With live-eval's resampler, ratings of 22 replies at 24 kHz differ by 0.11 MOS on average and
0.84 at most. The package processes all windows of a recording in one batch, at 31 MB each; here, batches
contain a few windows to limit memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from live_eval.extras import install_command
from live_eval.judges._sound import recording_detail, unrateable
from live_eval.judges.networks._torch import exact_inference, import_torchaudio, torch_device
from live_eval.judging import JudgedTurn, Judgement, Scored
from live_eval.weights import packaged_file

__all__ = ["RATE_HZ", "WINDOW_SAMPLES", "DistillMos", "window_starts"]

RATE_HZ = 16_000
WINDOW_SAMPLES = 122_880
_LONGEST_HOP_SAMPLES = 16_000
_SHA256 = "b18b3ac60227267cfb91e5d00ce22cc7b73716fd92f269484da1446e27031a40"
# The largest activation of a window is 31 MB.
_WINDOWS_AT_ONCE = {"cpu": 2, "cuda": 64}
# torchaudio creates one filter per phase: at most 640 for common rates, but up to 16,000 for unusual rates,
# which needs gigabytes.
_MOST_PHASES = 640


class DistillMos:
    """DistillMOS ratings of replies, MOS, higher is better.

    Silent replies and replies shorter than 0.5 s are unscored, since the network would rate the silence that
    pads the window. The network is barely sensitive to clipping.

    Args:
        device: Torch device, ``cpu`` or ``cuda``.

    Raises:
        JudgeError: The package, its weights or the device is missing, or the weights have a wrong hash.
    """

    def __init__(self, *, device: str = "cpu") -> None:
        self._device = torch_device(device)
        checkpoint = packaged_file(
            "distillmos", "weights/distill_mos_v7.pt", _SHA256, install=install_command("torch")
        )
        self._torchaudio = import_torchaudio()  # the package imports it too
        import torch
        from distillmos import ConvTransformerSQAModel

        self._network = ConvTransformerSQAModel(load_weights=False, segmenting_in_forward=False)
        self._network.load_state_dict(torch.load(checkpoint, "cpu", weights_only=True)["model"])
        self._network.eval().to(self._device)

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Rate each reply."""
        return [unrateable(turn) or self._judge(turn) for turn in batch]

    def _judge(self, turn: JudgedTurn) -> Judgement:
        ratings = self.rate(self._at_rated_rate(turn))
        detail = {"windows": len(ratings), **recording_detail(turn), "sha256": _SHA256}
        return Scored({"": float(np.mean(ratings))}, detail)

    def _at_rated_rate(self, turn: JudgedTurn) -> NDArray[np.float32]:
        """Return the reply at 16_000 Hz, float32 mono, shape (samples,), resampled as in the package."""
        import torch

        assert turn.reply is not None  # otherwise, the turn would be unrateable
        rate_hz = turn.reply.rate_hz
        if RATE_HZ // math.gcd(rate_hz, RATE_HZ) > _MOST_PHASES:
            return turn.reply_at(RATE_HZ).samples
        resampled = self._torchaudio.functional.resample(torch.tensor(turn.reply.samples), rate_hz, RATE_HZ)
        return np.asarray(resampled.numpy(), np.float32)

    def rate(self, sound: NDArray[np.float32]) -> list[float]:
        """Return the MOS of each window of a recording.

        Args:
            sound: float32 mono, shape (samples,), at 16_000 Hz.
        """
        import torch

        starts = window_starts(len(sound))
        windows = sliding_window_view(np.pad(sound, (0, max(0, WINDOW_SAMPLES - len(sound)))), WINDOW_SAMPLES)
        at_once = _WINDOWS_AT_ONCE[self._device.type]
        ratings: list[float] = []
        with exact_inference():
            for first in range(0, len(starts), at_once):
                some = torch.from_numpy(windows[starts[first : first + at_once]])
                ratings += self._network(some.to(self._device)).flatten().tolist()
        return ratings


def window_starts(samples: int) -> list[int]:
    """Return the window starts in samples, as in the package: evenly spaced, at most a second apart."""
    over = max(0, samples - WINDOW_SAMPLES)
    windows = -(-over // _LONGEST_HOP_SAMPLES) + 1
    return [int(share * over) for share in np.linspace(0, 1, windows)]
