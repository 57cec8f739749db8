"""Rate the naturalness of speech with the UTMOS22 strong learner, trained on VoiceMOS Challenge 2022 ratings.

Source: Saeki, Xin, Nakata, Koriyama, Takamichi and Saruwatari, "UTMOS: UTokyo-SaruLab System for VoiceMOS
Challenge 2022" (Interspeech 2022). The network and its settings are from the package ``utmos-pytorch`` (MIT):
wav2vec 2.0 base at 16 kHz, embeddings of domain 0 and listener 288, a bidirectional LSTM and a projection;
the MOS is twice the mean over frames plus 3, higher is better, not clipped to 1 to 5.

The package rates recordings one by one. Here, they are rated in batches without affecting each other:
attention, LSTM and mean ignore the padding, and the first layer's group norm over time is folded into a
separate convolution for each recording. This is 2.2 times as fast as the package on two cores, with equal
output (`benchmarks/speech_quality.py`: 5 replies, 53 s, maximum difference 6e-7 MOS).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from live_eval.errors import JudgeError
from live_eval.extras import install_command
from live_eval.judges._sound import recording_detail, unrateable
from live_eval.judges.networks._torch import (
    batches_by_length,
    exact_inference,
    fill,
    padded,
    read_tensors,
    torch_device,
)
from live_eval.judges.specs.sound import UTMOS_WEIGHTS
from live_eval.judging import JudgedTurn, Judgement, Scored, judged_together
from live_eval.weights import chosen_weights

if TYPE_CHECKING:
    import torch

__all__ = ["RATE_HZ", "ConvStack", "Layer", "Utmos", "load_network"]

Layer: TypeAlias = "Callable[[torch.Tensor], torch.Tensor]"

RATE_HZ = 16_000
# As in the package: the domain of the challenge's main track and an average listener.
_DOMAIN, _LISTENER = 0, 288
# Including padding, which is also computed: larger batches are slower on two cores.
_MOST_SECONDS = {"cpu": 16, "cuda": 640}
# Number of 20 ms frames per convolution; the largest activation needs 130 KB per frame.
_MOST_FRAMES = {"cpu": 500, "cuda": 10_000}


@dataclass(frozen=True, slots=True)
class ConvStack:
    """Run the convolutions of wav2vec 2.0, which convert a waveform to frames, without padding.

    Args:
        shapes: Kernel size and stride of each convolution, in input samples.
    """

    shapes: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, blocks: Any) -> ConvStack:
        """Create a stack from modules, each a sequence that begins with its convolution."""
        return cls(tuple((block[0].kernel_size[0], block[0].stride[0]) for block in blocks))

    def frames(self, samples: int) -> int:
        """Return the number of frames for a number of samples.

        >>> ConvStack(((10, 5), (3, 2))).frames(25)
        1
        """
        for kernel, stride in self.shapes:
            samples = max(0, (samples - kernel) // stride + 1)
        return samples

    @property
    def hop(self) -> int:
        """The frame step in samples."""
        return math.prod(stride for _, stride in self.shapes)

    @property
    def reach(self) -> int:
        """The receptive field of a frame in samples."""
        reach = 1
        for kernel, stride in reversed(self.shapes):
            reach = (reach - 1) * stride + kernel
        return reach

    def run(self, layers: Sequence[Layer], audio: torch.Tensor, most_frames: int) -> torch.Tensor:
        """Run the layers in pieces, because the first activations are 100 times as large as the waveform.

        The frames equal the result of a single pass.

        Args:
            layers: The convolutions, each with its pointwise operations; no operation over time.
            audio: float32, shape (recordings, samples).
            most_frames: Maximum number of frames per piece, over all recordings.

        Returns:
            float32, shape (recordings, frames, channels).
        """
        import torch

        total = self.frames(audio.shape[1])
        at_once = max(1, most_frames // max(1, len(audio)))
        pieces = []
        for first in range(0, total, at_once):
            last = min(first + at_once, total)
            piece = audio[:, None, first * self.hop : (last - 1) * self.hop + self.reach]
            for layer in layers:
                piece = layer(piece)
            pieces.append(piece.transpose(1, 2))
        return torch.cat(pieces, dim=1)


class Utmos:
    """UTMOS22 strong learner ratings of replies, MOS, higher is better.

    Silent replies and replies shorter than 0.5 s are unscored, because the listeners rated sentences. Replies
    are resampled to 16 kHz. To limit memory use, a batch contains at most 16 s of replies on a CPU (640 s on
    a GPU), or one longer reply.

    Args:
        weights: Name of published weights, or the path of a state dict.
        device: Torch device, ``cpu`` or ``cuda``.

    Raises:
        JudgeError: The package, the weights or the device is missing, or the weights belong to another
            network.
    """

    def __init__(self, *, weights: str = UTMOS_WEIGHTS.name, device: str = "cpu") -> None:
        self._device = torch_device(device)
        found = chosen_weights(weights, UTMOS_WEIGHTS, any_hash=True)
        self._sha256 = found.sha256
        network: Any = load_network(found.path)
        self._network = network.to(self._device)
        self._ssl = self._network.feature_extractors[0].ssl_model
        blocks = self._ssl.feature_extractor.conv_layers
        self._stack = ConvStack.of(blocks)
        self._first, self._rest = blocks[0], list(blocks[1:])

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Rate each reply, in batches of similar length."""
        return judged_together(batch, unrateable, self._judge)

    def _judge(self, turns: Sequence[JudgedTurn]) -> list[Judgement]:
        sounds = [turn.reply_at(RATE_HZ).samples for turn in turns]
        ratings = [0.0] * len(turns)
        most_samples = _MOST_SECONDS[self._device.type] * RATE_HZ
        for together in batches_by_length([len(sound) for sound in sounds], most_samples):
            for one, mos in zip(together, self.rate([sounds[one] for one in together]), strict=True):
                ratings[one] = mos
        return [
            Scored({"": mos}, {**recording_detail(turn), "sha256": self._sha256})
            for turn, mos in zip(turns, ratings, strict=True)
        ]

    def rate(self, sounds: Sequence[NDArray[np.float32]], *, most_frames: int | None = None) -> list[float]:
        """Return the MOS of each recording.

        Args:
            sounds: Recordings, each float32 mono, shape (samples,) with samples >= 400, at 16_000 Hz.
            most_frames: Maximum number of frames per convolution; None for the device's default.
        """
        import torch

        with exact_inference():
            audio, _ = padded(sounds, self._device)
            frames = torch.tensor([self._stack.frames(len(sound)) for sound in sounds])
            layers = [self._first_layer(sounds), *self._rest]
            local = self._stack.run(layers, audio, most_frames or _MOST_FRAMES[self._device.type])
            features = self._features(local, frames)
            scores = self._frame_scores(features, frames).double().sum(dim=1).cpu() / frames
            return [float(score) * 2 + 3 for score in scores]

    def _features(self, local: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
        """Return the wav2vec 2.0 features of each frame, shape (recordings, frames, 768)."""
        import torch

        local = self._ssl.post_extract_proj(self._ssl.layer_norm(local))
        beyond = torch.arange(local.shape[1])[None] >= frames[:, None]
        mask = beyond.to(self._device) if beyond.any() else None
        features: torch.Tensor = self._ssl.encoder(local, padding_mask=mask)
        return features

    def _frame_scores(self, features: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
        """Return the projection's value for each frame, shape (recordings, frames); 0 past the end."""
        import torch
        from torch.nn.utils import rnn

        domain = self._network.feature_extractors[1].embedding.weight[_DOMAIN]
        conditioner, projection = self._network.output_layers
        listener = conditioner.judge_embedding.weight[_LISTENER]
        constant = torch.cat([domain, listener]).expand(*features.shape[:2], -1)
        # Pack the input, so the backward LSTM starts at the end of each recording.
        packed = rnn.pack_padded_sequence(
            torch.cat([features, constant], dim=2), frames, batch_first=True, enforce_sorted=False
        )
        states, _ = conditioner.decoder_rnn(packed)
        scores, _ = rnn.pad_packed_sequence(
            states._replace(data=projection.net(states.data)), batch_first=True
        )
        return scores[:, :, 0]

    def _first_layer(self, sounds: Sequence[NDArray[np.float32]]) -> Layer:
        """Return the first convolution, combined with its group norm for these recordings."""
        # The norm uses each channel's mean and variance over the recording. A channel is a linear filter of
        # waveform windows, so both follow from the mean and covariance of the windows. A normalised channel
        # is another linear filter plus a constant.
        import torch
        from torch.nn import functional

        convolution, norm = self._first[0], self._first[2]
        (kernel,), (stride,) = convolution.kernel_size, convolution.stride
        filters = convolution.weight[:, 0].double().cpu().numpy()
        gain, offset = (tensor.double().cpu().numpy() for tensor in (norm.weight, norm.bias))
        weights, constants = [], []
        for sound in sounds:
            windows = sliding_window_view(sound.astype(np.float64), kernel)[::stride]
            mean = windows.mean(axis=0)
            centred = windows - mean
            covariance = centred.T @ centred / len(windows)
            variance = np.einsum("ci,ij,cj->c", filters, covariance, filters)
            scale = gain / np.sqrt(np.maximum(variance, 0) + norm.eps)
            weights.append(filters * scale[:, None])
            constants.append(offset - filters @ mean * scale)
        weight = torch.from_numpy(np.concatenate(weights)[:, None]).float().to(self._device)
        bias = torch.from_numpy(np.concatenate(constants)).float().to(self._device)
        count, channels = len(sounds), len(filters)

        def layer(audio: torch.Tensor) -> torch.Tensor:
            # one channel group per recording
            side_by_side = audio.reshape(1, count, -1)
            filtered = functional.conv1d(side_by_side, weight, bias, stride=stride, groups=count)
            return functional.gelu(filtered.reshape(count, channels, -1))

        return layer


def load_network(path: Path) -> torch.nn.Module:
    """Return the network of utmos-pytorch with the weights of a state dict, on the CPU.

    Raises:
        JudgeError: The package is missing, or the file does not contain the network's weights.
    """
    import torch

    try:
        from utmos_pytorch.utmos_torch import UTMOSModel, remove_weight_norm_for_jit
    except ImportError as error:
        raise JudgeError(
            f"cannot import the package utmos-pytorch ({install_command('torch')}): {error}"
        ) from error
    tensors = read_tensors(path)
    with warnings.catch_warnings():
        # The positional convolution uses torch's older weight norm, which is deprecated.
        warnings.simplefilter("ignore", FutureWarning)
        # Build the network without storage: initialising 100 million weights takes longer than reading them.
        with torch.device("meta"):
            network: torch.nn.Module = UTMOSModel()
        network = network.to_empty(device="cpu")
        fill(network, tensors, path, "UTMOS22 strong")
        remove_weight_norm_for_jit(network)
    return network.eval()
