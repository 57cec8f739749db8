"""NISQA v2.0: how good the reply sounds, and what of it is noisy, broken, coloured or of the wrong loudness.

Source: Mittag, Naderi, Chehadi and Möller, "NISQA: A Deep CNN-Self-Attention Model for Multidimensional
Speech Quality Prediction with Crowdsourced Datasets" (Interspeech 2021). The network is torchmetrics' port of
the authors' (both MIT); the weights are the authors' ``nisqa.tar`` (CC BY-NC-SA 4.0: not for commercial use).

As the authors do, a recording is taken at its own rate: mel bands up to 20 kHz, frames of 20 ms every 10 ms,
segments of 15 frames every 4. They rate at most 1,300 segments (52 s); a longer reply is rated in pieces of
equal length, whose mean it gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from judges._mel import hann, mel_filters
from judges._sound import thread_count, unrateable
from judges._torch import torch_device
from judges.specs.sound import NISQA, NISQA_WEIGHTS
from live_eval.errors import JudgeError
from live_eval.judging import JudgedTurn, Judgement, Scored
from live_eval.weights import FoundWeights, find_weights, weights_at

__all__ = ["Nisqa", "segments_of"]

# What the weights were trained with; the file says it too, and is refused where it says otherwise.
_FEATURES = {
    "ms_sr": None,
    "ms_fmax": 20_000,
    "ms_n_fft": 4096,
    "ms_hop_length": 0.01,
    "ms_win_length": 0.02,
    "ms_n_mels": 48,
    "ms_seg_length": 15,
    "ms_seg_hop_length": 4,
    "ms_max_segments": 1300,
}
_FFT, _MELS, _HIGHEST_HZ = 4096, 48, 20_000.0
_SEGMENT_FRAMES, _SEGMENT_HOP, _MOST_SEGMENTS = 15, 4, 1300
_AMIN, _TOP_DB = 1e-4, 80.0
# Frames that are transformed at once: 8 MB of spectrum.
_FRAMES_AT_ONCE = 256
# Segments side by side, padding included: a segment's largest activation is 46 KB.
_SEGMENTS_AT_ONCE = {"cpu": 1_300, "cuda": 52_000}


@dataclass(frozen=True, slots=True)
class _Piece:
    """A reply, or a part of one that is too long: which, and its segments."""

    place: int
    segments: NDArray[np.float32]


class Nisqa:
    """Rates replies as NISQA v2.0 does, five outputs, MOS, higher is better.

    Unscored are replies without an audible sample and those shorter than 0.5 s.

    Args:
        weights: Name of published weights, or the path of ``nisqa.tar``.
        device: Where to compute, ``cpu`` or ``cuda``.

    Raises:
        JudgeError: The package, the weights or the device are not there, or they are not the weights that we
            know.
    """

    def __init__(self, *, weights: str = NISQA_WEIGHTS.name, device: str = "cpu") -> None:
        self._device = torch_device(device)
        found = _find(weights)
        self._sha256 = found.sha256
        self._network = _load(found.path).to(self._device)

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Rate each reply; those of similar length together."""
        judgements: list[Judgement | None] = [unrateable(turn) for turn in batch]
        places = [place for place, judgement in enumerate(judgements) if judgement is None]
        pieces: list[_Piece] = []
        with ThreadPoolExecutor(thread_count(), "nisqa") as pool:
            seen = pool.map(lambda place: _segments_of_reply(batch[place]), places)
            for place, segments in zip(places, seen, strict=True):
                parts = -(-len(segments) // _MOST_SEGMENTS)
                pieces += [_Piece(place, part) for part in np.array_split(segments, parts)]
        ratings = self._rate([piece.segments for piece in pieces])
        for place in dict.fromkeys(piece.place for piece in pieces):
            mine = [number for number, piece in enumerate(pieces) if piece.place == place]
            weights = [len(pieces[number].segments) for number in mine]
            means = np.average([ratings[number] for number in mine], axis=0, weights=weights)
            judgements[place] = Scored(
                {output.name: float(mean) for output, mean in zip(NISQA.outputs, means, strict=True)},
                {"pieces": len(mine), "sha256": self._sha256},
            )
        return [judgement for judgement in judgements if judgement is not None]

    def _rate(self, recordings: Sequence[NDArray[np.float32]]) -> list[list[float]]:
        """Return the five ratings of each recording, given as segments of shape (segments, 48, 15)."""
        ratings: list[list[float]] = [[] for _ in recordings]
        most = _SEGMENTS_AT_ONCE[self._device.type]
        together: list[int] = []
        for place in sorted(range(len(recordings)), key=lambda place: len(recordings[place])):
            if together and (len(together) + 1) * len(recordings[place]) > most:
                self._run(recordings, together, ratings)
                together = []
            together.append(place)
        if together:
            self._run(recordings, together, ratings)
        return ratings

    def _run(
        self, recordings: Sequence[NDArray[np.float32]], places: Sequence[int], ratings: list[list[float]]
    ) -> None:
        """Rate some recordings at once; those that are shorter than the longest are masked."""
        import torch

        counts = torch.tensor([len(recordings[place]) for place in places], device=self._device)
        segments = torch.from_numpy(np.concatenate([recordings[place] for place in places])).to(self._device)
        # The network's own masks are made on the default device.
        with torch.inference_mode(), self._device:
            described = self._network.cnn.model(segments[:, None])
            inside = torch.arange(int(counts.max()))[None] < counts[:, None]
            padded = described.new_zeros((*inside.shape, described.shape[1]))
            padded[inside] = described
            seen, _ = self._network.time_dependency(padded, counts)
            rated = torch.cat([pool(seen, counts) for pool in self._network.pool_layers], dim=1)
        for place, row in zip(places, rated.cpu().tolist(), strict=True):
            ratings[place] = row


def _segments_of_reply(turn: JudgedTurn) -> NDArray[np.float32]:
    assert turn.reply is not None  # else it is unrateable
    return segments_of(turn.reply.samples, turn.reply.rate_hz)


def segments_of(samples: NDArray[np.float32], rate_hz: int) -> NDArray[np.float32]:
    """Return what the network sees: segments of a mel spectrogram in dB, 80 dB deep below its loudest band.

    Equal, up to float32 rounding, to what torchmetrics makes with librosa.

    Args:
        samples: float32 mono, shape (samples,), at `rate_hz`; 0.15 s at least.
        rate_hz: Their rate.

    Returns:
        float32, shape (segments, 48, 15).
    """
    window, hop = int(rate_hz * 0.02), int(rate_hz * 0.01)
    side = _FFT // 2
    mode = "reflect" if len(samples) > side else "symmetric"
    around = np.pad(samples, side, mode=mode)  # type: ignore[call-overload]  # one of its modes
    # The window lies in the middle of the transform; zeros around it add nothing.
    first = side - window // 2
    frames = sliding_window_view(around[first : len(around) - _FFT + first + window], window)[::hop]
    filters = mel_filters(rate_hz, _FFT, _MELS, _HIGHEST_HZ)
    bands = [
        np.abs(np.fft.rfft(frames[at : at + _FRAMES_AT_ONCE] * hann(window), _FFT)).astype(np.float32)
        @ filters
        for at in range(0, len(frames), _FRAMES_AT_ONCE)
    ]
    decibels = 20 * np.log10(np.maximum(_AMIN, np.concatenate(bands)))
    decibels = np.maximum(decibels, decibels.max() - _TOP_DB).astype(np.float32)
    segments = sliding_window_view(decibels, _SEGMENT_FRAMES, axis=0)[::_SEGMENT_HOP]
    return np.ascontiguousarray(segments)


def _find(weights: str) -> FoundWeights:
    if weights == NISQA_WEIGHTS.name:
        return find_weights(NISQA_WEIGHTS)
    return weights_at(Path(weights), NISQA_WEIGHTS)


def _load(path: Path) -> Any:
    """Return the network with its weights, ready to rate."""
    import torch
    from torchmetrics.functional.audio import nisqa

    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        arguments = checkpoint["args"]
        told = {name: arguments[name] for name in _FEATURES}
        network = nisqa._NISQADIM(arguments)
        network.load_state_dict(checkpoint["model_state_dict"], strict=True)
    except Exception as error:
        raise JudgeError(
            f"{path}: expected the weights of NISQA v2.0: {type(error).__name__}: {error}"
        ) from error
    if told != _FEATURES:
        raise JudgeError(f"{path}: expected weights of NISQA with the features {_FEATURES}, found {told}")
    return network.eval()
