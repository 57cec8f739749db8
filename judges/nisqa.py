"""Rate the reply's audio quality, noisiness, discontinuity, coloration and loudness with NISQA v2.0.

Source: Mittag, Naderi, Chehadi and Möller, "NISQA: A Deep CNN-Self-Attention Model for Multidimensional
Speech Quality Prediction with Crowdsourced Datasets" (Interspeech 2021). The network is torchmetrics' port of
the authors' (both MIT); the weights are the authors' ``nisqa.tar`` (CC BY-NC-SA 4.0: not for commercial use).

Network and segmentation are from torchmetrics, which accepts at most 1,300 segments (52 s) at once, so the
rating of a longer reply is the mean over pieces of equal length. The loader is our own, because torchmetrics
downloads weights without checking their hash. So is the spectrogram, because torchmetrics uses librosa, which
always runs on the CPU; ours uses librosa's filters and differs by less than 0.001 dB.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from live_eval.audio import Audio
from live_eval.errors import JudgeError
from live_eval.extras import install_command
from live_eval.judges._sound import recording_detail, unrateable
from live_eval.judges.networks._torch import exact_inference, torch_device, without_remarks
from live_eval.judges.specs.sound import NISQA, NISQA_WEIGHTS
from live_eval.judging import JudgedTurn, Judgement, Scored
from live_eval.weights import chosen_weights

if TYPE_CHECKING:
    import torch

__all__ = ["Nisqa"]


_AMIN, _TOP_DB = 1e-4, 80.0  # settings of torchmetrics' spectrogram
# One piece takes 4 MB; batches of several are slower on a CPU.
_PIECES_AT_ONCE = {"cpu": 1, "cuda": 32}


class Nisqa:
    """NISQA v2.0 ratings of replies: five MOS values, higher is better.

    Silent and short replies are unscored.

    Args:
        weights: Name of published weights, or the path of ``nisqa.tar``.
        device: Torch device, ``cpu`` or ``cuda``.

    Raises:
        JudgeError: The package, the weights or the device is missing, or the weights have a wrong hash.
    """

    def __init__(self, *, weights: str = NISQA_WEIGHTS.name, device: str = "cpu") -> None:
        self._device = torch_device(device)
        found = chosen_weights(weights, NISQA_WEIGHTS)
        self._sha256 = found.sha256
        self._package = _package()
        import torch

        # safe to unpickle: the file's hash was checked
        checkpoint = torch.load(found.path, map_location="cpu", weights_only=True)
        self._settings: dict[str, Any] = checkpoint["args"]
        self._network: Any = self._package._NISQADIM(self._settings)
        self._network.load_state_dict(checkpoint["model_state_dict"])
        self._network.eval().to(self._device)

        self._filters: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # filters, window by rate

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Rate each reply."""
        refused = [unrateable(turn) for turn in batch]
        pieces = [
            self._pieces(turn.reply) if reason is None and turn.reply else []
            for turn, reason in zip(batch, refused, strict=True)
        ]
        ratings = iter(self._rate([piece for reply in pieces for piece in reply]))
        return [
            reason or self._judgement(turn, reply, list(islice(ratings, len(reply))))
            for turn, reason, reply in zip(batch, refused, pieces, strict=True)
        ]

    def _judgement(
        self, turn: JudgedTurn, pieces: Sequence[_Piece], ratings: Sequence[Sequence[float]]
    ) -> Judgement:
        means = np.average(ratings, axis=0, weights=[piece.number for piece in pieces])
        return Scored(
            {output.name: float(mean) for output, mean in zip(NISQA.outputs, means, strict=True)},
            {"pieces": len(pieces), **recording_detail(turn), "sha256": self._sha256},
        )

    def _pieces(self, audio: Audio) -> list[_Piece]:
        length, hop, most = (
            self._settings[f"ms_{name}"] for name in ("seg_length", "seg_hop_length", "max_segments")
        )
        mel = self._spectrogram(audio)[None]
        segments = math.ceil((mel.shape[2] - length + 1) / hop)
        pieces = []
        for part in np.array_split(np.arange(segments), math.ceil(segments / most)):
            # torchmetrics pads on the default device.
            with self._device:
                padded, _ = self._package._segment_specs(
                    mel[:, :, hop * part[0] : hop * part[-1] + length], self._settings
                )
            pieces.append(_Piece(padded, len(part)))
        return pieces

    def _spectrogram(self, audio: Audio) -> torch.Tensor:
        """Return the mel spectrogram in dB on the device, float32, shape (mels, frames), as in librosa."""
        import torch

        settings, rate_hz = self._settings, audio.rate_hz
        hop, width = (int(rate_hz * settings[f"ms_{name}_length"]) for name in ("hop", "win"))
        if rate_hz not in self._filters:
            self._filters[rate_hz] = self._mel_filters(rate_hz), torch.hann_window(width, device=self._device)
        filters, window = self._filters[rate_hz]
        with exact_inference():
            spectrum = torch.stft(
                torch.from_numpy(audio.samples).to(self._device),
                n_fft=settings["ms_n_fft"],
                hop_length=hop,
                win_length=width,
                window=window,
                center=True,
                pad_mode="reflect",
                return_complex=True,
            )
            decibels = 20 * torch.log10((filters @ spectrum.abs()).clamp(min=_AMIN))
            return torch.maximum(decibels, decibels.max() - _TOP_DB)

    def _mel_filters(self, rate_hz: int) -> torch.Tensor:
        """Return librosa's filters for a sample rate, float32, shape (mels, n_fft / 2 + 1)."""
        import torch

        with without_remarks():  # librosa warns about empty filters below 40 kHz
            from librosa.filters import mel

            filters = mel(
                sr=rate_hz,
                n_fft=self._settings["ms_n_fft"],
                n_mels=self._settings["ms_n_mels"],
                fmin=0.0,
                fmax=self._settings["ms_fmax"],
            )
        return torch.from_numpy(filters).to(self._device)

    def _rate(self, pieces: Sequence[_Piece]) -> list[list[float]]:
        """Return the five ratings of each piece."""
        import torch

        ratings: list[list[float]] = []
        at_once = _PIECES_AT_ONCE[self._device.type]
        for first in range(0, len(pieces), at_once):
            some = pieces[first : first + at_once]
            counts = torch.tensor([piece.number for piece in some])
            # Replaces the network's forward, which creates masks on the default device and packs on the CPU.
            with exact_inference():
                described = self._network.cnn(torch.cat([piece.segments for piece in some]), counts)
                with self._device:
                    seen, counts = self._network.time_dependency(described, counts.to(self._device))
                    rated = torch.cat([pool(seen, counts) for pool in self._network.pool_layers], dim=1)
            ratings += rated.tolist()
        return ratings


class _Piece(NamedTuple):
    """The network's input: at most 1,300 segments of a reply."""

    segments: torch.Tensor
    """float32, shape (1, 1300, mels, frames of a segment), on the device, padded with zeros."""
    number: int
    """Number of segments before the padding."""


def _package() -> Any:
    """Return torchmetrics' NISQA module, or raise `JudgeError`."""
    try:
        with without_remarks():
            from torchmetrics.functional.audio import nisqa
            from torchmetrics.functional.audio.nisqa import _NISQADIM  # noqa: F401
    except ImportError as error:
        raise JudgeError(
            f"NISQA requires the package torchmetrics 1.9, since its network is not public API: {error}: "
            f"{install_command('torch')}"
        ) from error
    if importlib.util.find_spec("librosa") is None:
        raise JudgeError(f"NISQA requires the package librosa: {install_command('torch')}")
    return nisqa
