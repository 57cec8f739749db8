"""Classify emotions with emotion2vec, run by the package ``funasr``.

Source: Ma, Zheng, Ye, Li, Gao, Zhang and Chen, "emotion2vec: Self-Supervised Pre-Training for Speech Emotion
Representation" (ACL Findings 2024). funasr runs the network on one recording at a time. Attention memory
grows with the square of the duration (14 GB per layer for five minutes; 60 s need 4.4 GB, including the
network), so a recording longer than `WINDOW_S` is split into windows of equal length, whose probabilities
are averaged.

Only the loader is our own, because funasr's loader leaves tensors that are missing from a checkpoint at
random values; here, a missing tensor is an error. Nothing is downloaded. kaldiio, a dependency of funasr that
reads Kaldi files and is licensed for evaluation only, is neither required nor loaded.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from live_eval.errors import JudgeError
from live_eval.extras import install_command
from live_eval.judges.networks._torch import exact_inference, fill, import_torchaudio, read_tensors

if TYPE_CHECKING:
    import torch

RATE_HZ = 16_000
WINDOW_S = 60.0


class Emotion2vec:
    """An emotion classifier, loaded from a published model folder.

    Args:
        folder: Folder with ``model.pt``, ``config.yaml`` and ``tokens.txt``.
        device: Torch device.
        window_s: Maximum duration of a recording that is classified as a whole, in seconds.

    Raises:
        JudgeError: The package is missing, or the folder does not contain such a network.
    """

    def __init__(self, folder: Path, device: torch.device, *, window_s: float = WINDOW_S) -> None:
        tokens = [line.rstrip() for line in _text(folder / "tokens.txt").splitlines()]
        config = _config(folder / "config.yaml")
        self._tokenizer = SimpleNamespace(token_list=tokens)
        self._device = device
        self._window_s = window_s
        self._network: Any = _network(config, len(tokens), folder).to(device).eval()
        # funasr assigns no probability to unused classes.
        self.labels = tuple(label_of(token) for token in tokens if not token.startswith("unuse"))

    def probabilities(self, sound: NDArray[np.float32]) -> dict[str, float]:
        """Return the probability of each of `labels`.

        Args:
            sound: float32 mono, shape (samples,) with samples >= 400, at 16_000 Hz.
        """
        windows = np.array_split(sound, math.ceil(len(sound) / (self._window_s * RATE_HZ)))
        with exact_inference():
            results, _ = self._network.inference(
                windows,
                key=[""] * len(windows),
                tokenizer=self._tokenizer,
                device=self._device,
                extract_embedding=False,
            )
        mean = np.mean([result["scores"] for result in results], axis=0)
        return dict(zip(self.labels, mean.tolist(), strict=True))


def label_of(token: str) -> str:
    """Return the English name of a class from the model's token list.

    >>> label_of("生气/angry"), label_of("<unk>")
    ('angry', 'unk')
    """
    return token.rpartition("/")[2].strip("<> ").lower()


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JudgeError(f"{path}: cannot read this emotion2vec model file: {error}") from error


def _config(path: Path) -> Any:
    """Return the model's settings, or raise `JudgeError` if they describe an unsupported network."""
    try:
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException
        from yaml import YAMLError  # omegaconf parses with this module
    except ImportError as error:
        raise _no_funasr(error) from error
    try:
        config = OmegaConf.create(_text(path))
        audio = config.model_conf.modalities.audio
        name, mode, learned = config.model, audio.extractor_mode, bool(audio.get("learned_alibi", False))
    except (OmegaConfBaseException, YAMLError, AttributeError, TypeError) as error:
        raise JudgeError(f"{path}: cannot read the emotion2vec settings: {error}") from error
    if (name, mode, learned) != ("Emotion2vec", "layer_norm", False):
        raise JudgeError(
            f"{path}: expected an Emotion2vec with extractor_mode layer_norm and learned_alibi false, "
            f"got {name}, {mode}, {str(learned).lower()}"
        )
    return config


def _network(config: Any, classes: int, folder: Path) -> Any:
    """Return the network with its weights, without the decoder, which is used only in training."""
    import torch

    make = network_class()
    path = folder / "model.pt"
    tensors = read_tensors(path)
    try:
        # Build the network without storage: initialising 300 million weights takes longer than reading them.
        with torch.device("meta"):
            network = make(model_conf=config.model_conf, vocab_size=classes)
    except (AttributeError, TypeError, ValueError, RuntimeError, LookupError) as error:
        raise JudgeError(
            f"{folder / 'config.yaml'}: cannot read the emotion2vec settings: {error}"
        ) from error
    network.modality_encoders["AUDIO"].remove_pretraining_modules()
    network = network.to_empty(device="cpu")
    prefixes = [str(prefix) for prefix in config.get("scope_map", [])]
    fill(network, tensors, path, "emotion2vec", _names(network.state_dict(), tensors, prefixes))
    return network


def _names(
    wanted: Mapping[str, object], tensors: Mapping[str, object], scope_map: Sequence[str]
) -> dict[str, str]:
    """Return the tensor names in the checkpoint, mapped as in funasr's loader: the last prefix wins."""
    names = {}
    prefixes = ["" if prefix.lower() == "none" else prefix for prefix in (*scope_map, "module.", "none")]
    for name in wanted:
        for there, here in zip(prefixes[::2], prefixes[1::2], strict=False):
            if name.startswith(here) and there + name[len(here) :] in tensors:
                names[name] = there + name[len(here) :]
    return names


def network_class() -> Any:
    """Import funasr's network without output: the package imports all its modules, which warn, print and log.

    Raises:
        JudgeError: The network cannot be imported.
    """
    import_torchaudio()
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        with _stand_in("kaldiio"), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            from funasr.models.emotion2vec.model import Emotion2vec as Network
    except (ImportError, OSError) as error:
        raise _no_funasr(error) from error
    finally:
        # Some funasr modules enable INFO messages for all packages.
        root.setLevel(level)
        root.handlers[:] = handlers
    return Network


@contextlib.contextmanager
def _stand_in(name: str) -> Iterator[None]:
    """Replace a module with an empty stand-in during imports, unless it is already loaded."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = ModuleType(name)
    try:
        yield
    finally:
        del sys.modules[name]


def _no_funasr(error: Exception) -> JudgeError:
    return JudgeError(f"cannot import the package funasr ({install_command('emotion')}): {error}")
