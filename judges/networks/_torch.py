"""Share torch helpers among judges: device, batches, exact float32, torchaudio and checkpoints."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import pickle
import sys
import types
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from live_eval.errors import JudgeError
from live_eval.extras import install_command

if TYPE_CHECKING:
    import torch

# The keys under which training tools save a network's tensors; funasr supports the same keys.
_WRAPPERS = ("state_dict", "model_state_dict", "model")


def torch_device(name: str) -> torch.device:
    """Return the torch device that the user selected.

    Raises:
        JudgeError: This machine has no such device.
    """
    import torch

    if name == "cuda" and not torch.cuda.is_available():
        raise JudgeError(f"--device cuda: torch {torch.__version__} finds no CUDA device; use cpu")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise JudgeError(f"--device {name}: expected cpu or cuda: {error}") from error


def batches_by_length(lengths: Sequence[int], most_samples: int) -> list[list[int]]:
    """Group recordings into batches of similar length, shortest first, and return their indices.

    Args:
        lengths: Number of samples of each recording.
        most_samples: Maximum number of samples in a batch, including padding; a longer recording gets a
            separate batch.
    """
    batches: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        # Lengths are ascending, so the last recording determines the padded length.
        if batches and (len(batches[-1]) + 1) * lengths[position] <= most_samples:
            batches[-1].append(position)
        else:
            batches.append([position])
    return batches


def padded(
    recordings: Sequence[NDArray[np.float32]], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return recordings as one batch on the device, padded with zeros.

    Args:
        recordings: float32 mono, each of shape (samples,).
        device: Device for the batch.

    Returns:
        The samples, float32, shape (recordings, longest), and the lengths, int64, shape (recordings,).
    """
    import torch

    lengths = [len(recording) for recording in recordings]
    side_by_side = np.zeros((len(recordings), max(lengths, default=0)), np.float32)
    for row, recording in zip(side_by_side, recordings, strict=True):
        row[: len(recording)] = recording
    return torch.from_numpy(side_by_side).to(device), torch.tensor(lengths, device=device)


@contextlib.contextmanager
def exact_inference() -> Iterator[None]:
    """Compute without gradients and in exact float32.

    By default, cuDNN rounds convolution inputs to TF32 (10 bits), but scores must be equal on every device.
    """
    import torch

    with torch.inference_mode(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


def import_torchaudio() -> Any:
    """Import torchaudio, including a CUDA build on a machine without CUDA.

    The PyPI wheels load CUDA libraries at import, even if torch is a CPU build. Only loading, saving and
    forced alignment need these libraries, so a stand-in module reports them as unavailable.

    Raises:
        JudgeError: torchaudio cannot be imported.
    """
    if importlib.util.find_spec("torchaudio") is None:
        raise JudgeError(f"the package torchaudio is missing: {install_command('torch')}")
    import torch

    extension = "torchaudio._extension"
    if torch.version.cuda is None and extension not in sys.modules:
        stand_in = types.ModuleType(extension)
        vars(stand_in).update(
            _IS_TORCHAUDIO_EXT_AVAILABLE=False,
            _IS_ALIGN_AVAILABLE=False,
            _check_cuda_version=lambda: None,
            fail_if_no_align=lambda function: function,
        )
        sys.modules[extension] = stand_in
    try:
        import torchaudio
    except (ImportError, OSError) as error:
        raise JudgeError(
            f"cannot import torchaudio with torch {torch.__version__}: install builds of both for "
            f"the same CUDA version, or for the CPU: {error}"
        ) from error
    return torchaudio


@contextlib.contextmanager
def without_remarks() -> Iterator[None]:
    """Suppress the warnings and messages of model libraries during loading."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Return a checkpoint's tensors by name, on the CPU, without executing code in the file.

    Raises:
        JudgeError: The file cannot be read, or contains objects other than tensors.
    """
    import torch

    try:
        with without_remarks():
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError as error:
        raise JudgeError(
            f"{path}: torch cannot load this checkpoint: expected only tensors (code in it is not executed)"
        ) from error
    except Exception as error:  # torch raises many exception types for a broken file
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise JudgeError(f"{path}: torch cannot load this checkpoint: {reason}") from error
    for wrapper in _WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    tensors = (
        {str(name): value for name, value in content.items() if isinstance(value, torch.Tensor)}
        if isinstance(content, Mapping)
        else {}
    )
    if not tensors:
        raise JudgeError(f"{path}: expected a checkpoint with network tensors, found none")
    return tensors


def fill(
    network: torch.nn.Module,
    tensors: Mapping[str, torch.Tensor],
    path: Path,
    what: str,
    names: Mapping[str, str] | None = None,
) -> None:
    """Load tensors into a network, which must include every parameter and buffer.

    Args:
        tensors: The checkpoint's tensors; additional tensors are ignored.
        path: Path of the checkpoint, for error messages.
        what: Name of the network, for error messages.
        names: Mapping of parameter names that differ in the checkpoint.

    Raises:
        JudgeError: A tensor is missing or has another shape.
    """
    # The packages of these networks load matching tensors and leave the rest random, so a wrong file would
    # yield meaningless ratings.
    wanted = network.state_dict()
    given = {name: tensors.get((names or {}).get(name, name)) for name in wanted}
    for name, tensor in given.items():
        shape = list(wanted[name].shape)
        if tensor is None:
            raise JudgeError(
                f"{path}: expected the weights of {what}, found no tensor {name} {shape} "
                f"among its {len(tensors)} ({next(iter(tensors), '')}, …)"
            )
        if list(tensor.shape) != shape:
            raise JudgeError(
                f"{path}: expected the weights of {what}, got {list(tensor.shape)} for {name} {shape}"
            )
    network.load_state_dict(given)
