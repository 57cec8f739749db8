"""Rate the audio quality of the reply with DNSMOS: P.835 (`sig_bak_ovr.onnx`) and P.808 (`model_v8.onnx`).

Source: Reddy, Gopal and Cutler, "DNSMOS P.835" (ICASSP 2022) and "DNSMOS" (ICASSP 2021). Weights and
parameters are from the package ``speechmos`` (MIT): audio at 16 kHz, in windows of 9.01 s every second. Short
clips are doubled until they fill a window, and the rating is the mean over the windows.

Adjacent windows share 8 of their 9 seconds, and nearly all of the P.835 network's computation is
convolutions, whose values at a given time are the same in every window. The network is therefore split in
two. The front runs once over the whole clip, in pieces, and again on a strip of 16 frames at each window
edge, where the network pads with zeros. The back runs once per window. The ratings equal those of the
original network up to float32 rounding and take 1/2.8 of the time of speechmos
(`benchmarks/speech_quality.py`: 8 files, 69 s).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import soxr
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from live_eval.audio import Audio
from live_eval.errors import JudgeError
from live_eval.judges._sound import recording_detail, thread_count, unrateable
from live_eval.judging import JudgedTurn, Judgement, Scored, judged_together
from live_eval.weights import packaged_file

if TYPE_CHECKING:
    import onnx

__all__ = [
    "P808_FILE",
    "P835_FILE",
    "RATE_HZ",
    "WINDOW_SAMPLES",
    "Dnsmos",
    "RatedClip",
    "at_rated_rate",
    "find_weights",
    "mel_features",
    "rated_clip",
]

RATE_HZ = 16_000
WINDOW_SAMPLES = 144_160
_WINDOW_S = 9.01

P835_FILE = "sig_bak_ovr.onnx"
P808_FILE = "model_v8.onnx"
_SHA256 = {
    P835_FILE: "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd",
    P808_FILE: "9246480c58567bc6affd4200938e77eef49468c8bc7ed3776d109c07456f6e91",
}

# The P.835 network: 900 frames of 20 ms per window, 10 ms apart. It is split at two tensors: the frames, and
# the pooled frames (a quarter as many) after two pooling layers.
_FRAME = 320
_HOP = 160
_WINDOW_FRAMES = 900
_HOP_FRAMES = 100
_FRAMES_TENSOR = "mos_estimator_logpow/concat:0"
_QUARTERS_TENSOR = "mos_estimator_logpow/max_pooling2d/MaxPool_1_conv0"
_RATINGS_TENSOR = "Identity:0"
# Four 3x3 convolutions, pooling by 2, a convolution and pooling by 2 spread an edge effect over 2 pooled
# frames. A margin of 8 frames avoids it, and a strip of 16 frames has 2 valid positions.
_EDGE = 2
_HALO_FRAMES = 8
_STRIP_FRAMES = 16
# With this length, the overlap costs 3 %, and a piece's largest activation is 40 MB.
_PIECE_FRAMES = 448

# Microsoft's calibration polynomials for the outputs (speech, background, overall), highest power first.
_CALIBRATION = {
    "sig": (-0.08397278, 1.22083953, 0.0052439),
    "bak": (-0.13166888, 1.60915514, -0.39604546),
    "ovrl": (-0.06766283, 1.11546468, 0.04602535),
}

# Parameters of the P.808 network's features.
_FFT = 321
_MELS = 120
_WINDOW = np.float32(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_FFT) / _FFT))
_AMIN = 1e-10
_TOP_DB = 80.0


@dataclass(frozen=True, slots=True, eq=False)
class RatedClip:
    """A clip and its windows.

    Args:
        samples: The clip, repeated if shorter than a window: float32 mono, shape (samples,), at 16_000 Hz.
        starts_s: Start of each window of `WINDOW_SAMPLES`, in seconds.
        copies: Number of copies of the clip; 1 if it fills a window.
    """

    samples: NDArray[np.float32]
    starts_s: tuple[int, ...]
    copies: int

    def window(self, start_s: int) -> NDArray[np.float32]:
        """Return the window that starts at `start_s` seconds, shape (WINDOW_SAMPLES,)."""
        begin = start_s * RATE_HZ
        return self.samples[begin : begin + WINDOW_SAMPLES]


class Dnsmos:
    """DNSMOS ratings of replies: ``ovrl``, ``sig``, ``bak`` (P.835) and ``p808``, MOS, higher is better.

    Silent replies (the networks rate digital silence 1.8) and replies shorter than 0.5 s are unscored.
    Replies are resampled to 16 kHz; the empty upper band of a reply at 8 kHz lowers its ratings. Clipped
    replies are rated. The score's detail contains the reply's rate and the share of samples at full scale.

    Args:
        workers: Number of rating threads; None for one per core, at most 16. Each thread runs its network
            single-threaded, so no core idles while another computes features.

    Raises:
        JudgeError: A package or its weights are missing, or the weights have a wrong hash.
    """

    def __init__(self, *, workers: int | None = None) -> None:
        self._workers = workers or thread_count()
        self._front, self._back = _cut_p835(find_weights(P835_FILE))
        self._p808 = _session(find_weights(P808_FILE).read_bytes())

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Rate each reply; all windows share one queue."""
        return judged_together(batch, unrateable, self._judge)

    def _judge(self, turns: Sequence[JudgedTurn]) -> list[Judgement]:
        clips = [rated_clip(at_rated_rate(turn.reply)) for turn in turns if turn.reply is not None]
        with ThreadPoolExecutor(self._workers, thread_name_prefix="dnsmos") as pool:
            pieces = [
                [pool.submit(self._front_piece, clip, *piece) for piece in _pieces(clip)] for clip in clips
            ]
            windows: list[list[Future[dict[str, float]]]] = []
            for clip, futures in zip(clips, pieces, strict=True):
                quarters = np.concatenate([future.result() for future in futures], axis=1)
                windows.append(
                    [pool.submit(self._rate_window, clip, quarters, start) for start in clip.starts_s]
                )
            return [
                _scored(turn, clip, [future.result() for future in futures])
                for turn, clip, futures in zip(turns, clips, windows, strict=True)
            ]

    def _front_piece(self, clip: RatedClip, begin: int, end: int) -> NDArray[np.float32]:
        """Return the pooled frames from `begin` to `end`, shape (32, (end - begin) / 4, 40)."""
        low, high = max(0, begin - _HALO_FRAMES), min(_frame_count(clip), end + _HALO_FRAMES)
        pooled = self._run_front(_frames(clip, low, high)[None])
        return pooled[0, :, (begin - low) // 4 : (end - low) // 4]

    def _rate_window(self, clip: RatedClip, quarters: NDArray[np.float32], start_s: int) -> dict[str, float]:
        """Return the ratings of one window."""
        first = start_s * _HOP_FRAMES
        last = first + _WINDOW_FRAMES
        strips = self._run_front(
            np.stack([_frames(clip, first, first + _STRIP_FRAMES), _frames(clip, last - _STRIP_FRAMES, last)])
        )
        window = quarters[:, first // 4 : last // 4].copy()
        window[:, :_EDGE] = strips[0, :, :_EDGE]
        window[:, -_EDGE:] = strips[1, :, -_EDGE:]
        raw = self._back.run([_RATINGS_TENSOR], {_QUARTERS_TENSOR: window[None]})[0][0]
        calibrated = {
            name: float(np.polyval(_CALIBRATION[name], float(value)))
            for name, value in zip(("sig", "bak", "ovrl"), raw, strict=True)
        }
        features = mel_features(clip.window(start_s)[:-_HOP])
        p808 = float(self._p808.run(None, {"input_1": features[None]})[0][0][0])
        return {**calibrated, "p808": p808}

    def _run_front(self, frames: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(self._front.run([_QUARTERS_TENSOR], {_FRAMES_TENSOR: frames})[0], np.float32)


def find_weights(name: str) -> Path:
    """Return the path of `P835_FILE` or `P808_FILE` in the package `speechmos`, without importing it.

    Raises:
        JudgeError: The package or the file is missing, or the file has a wrong hash.
    """
    install = "pip install speechmos==0.0.1.1"
    return packaged_file("speechmos", f"dnsmos_models/{name}", _SHA256[name], install=install)


def rated_clip(samples: NDArray[np.float32]) -> RatedClip:
    """Repeat a short clip and place the windows as in speechmos.

    Args:
        samples: float32 mono, shape (samples,) with samples > 0, at 16_000 Hz.
    """
    copies = 1
    while len(samples) < WINDOW_SAMPLES:
        samples = np.concatenate((samples, samples))
        copies *= 2
    last = int(len(samples) // RATE_HZ - _WINDOW_S)
    # speechmos computes a window's end as int((start + 9.01) * 16000) and skips windows that are one sample
    # short. In binary floating point, these are the starts 7 to 23 and 119 to 122. Replies of more than 17 s
    # lose these windows in all published results and therefore also here.
    starts = tuple(
        start
        for start in range(last + 1)
        if int((start + _WINDOW_S) * RATE_HZ) - start * RATE_HZ >= WINDOW_SAMPLES
    )
    return RatedClip(np.ascontiguousarray(samples, dtype=np.float32), starts, copies)


def at_rated_rate(audio: Audio) -> NDArray[np.float32]:
    """Return `audio` at 16_000 Hz, float32 mono, shape (samples,), resampled as in speechmos."""
    # librosa uses soxr's "high quality". The "very high quality" used elsewhere in live-eval retains slightly
    # more below 8 kHz, which changes P.808 ratings by up to 0.01.
    if audio.rate_hz == RATE_HZ:
        return audio.samples
    return np.asarray(soxr.resample(audio.samples, audio.rate_hz, RATE_HZ, quality="HQ"), dtype=np.float32)


def mel_features(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the P.808 network's features: a mel spectrogram in dB, shifted and scaled to about [-1, 1].

    Equal up to float32 rounding to the librosa call in speechmos::

        (power_to_db(melspectrogram(y=samples, sr=16000, n_fft=321, hop_length=160, n_mels=120),
                     ref=np.max) + 40) / 40

    Args:
        samples: float32 mono, shape (samples,), at 16_000 Hz.

    Returns:
        float32, shape (1 + (samples - 1) // 160, 120).
    """
    # Frames are centred and padded with zeros at both ends.
    frames = sliding_window_view(np.pad(samples, _FFT // 2), _FFT)[::_HOP]
    spectrum = np.fft.rfft(frames * _WINDOW)
    power = spectrum.real**2 + spectrum.imag**2
    mel = power @ _mel_filters()
    decibels = 10 * np.log10(np.maximum(_AMIN, mel)) - 10 * np.log10(max(_AMIN, float(mel.max())))
    decibels = np.maximum(decibels, decibels.max() - _TOP_DB)
    return np.asarray((decibels + 40) / 40, dtype=np.float32)


@cache
def _mel_filters() -> NDArray[np.float32]:
    """Return librosa's triangular filters of equal area, float32, shape (_FFT // 2 + 1, _MELS).

    The triangles are spaced on the mel scale of Slaney's Auditory Toolbox: 200/3 Hz per mel up to 1 kHz,
    logarithmic above.
    """
    knee_hz, linear_hz, log_step = 1000.0, 200 / 3, np.log(6.4) / 27
    knee = knee_hz / linear_hz
    mels = np.linspace(0.0, knee + np.log(RATE_HZ / 2 / knee_hz) / log_step, _MELS + 2)
    edges = np.where(mels < knee, mels * linear_hz, knee_hz * np.exp(log_step * (mels - knee)))
    bins = np.fft.rfftfreq(_FFT, 1 / RATE_HZ)
    rising = (bins[:, None] - edges[None, :-2]) / np.diff(edges)[None, :-1]
    falling = (edges[None, 2:] - bins[:, None]) / np.diff(edges)[None, 1:]
    triangles = np.maximum(0, np.minimum(rising, falling))
    return np.asarray(triangles * (2 / (edges[2:] - edges[:-2])), dtype=np.float32)


def _scored(turn: JudgedTurn, clip: RatedClip, windows: Sequence[dict[str, float]]) -> Scored:
    return Scored(
        {name: float(np.mean([window[name] for window in windows])) for name in windows[0]},
        {
            "windows": len(windows),
            "copies": clip.copies,
            **recording_detail(turn),
            "sha256": _SHA256,
        },
    )


def _frame_count(clip: RatedClip) -> int:
    """Return the number of frames that the windows span."""
    return clip.starts_s[-1] * _HOP_FRAMES + _WINDOW_FRAMES


def _pieces(clip: RatedClip) -> list[tuple[int, int]]:
    """Split the frames that the windows span into pieces of similar length, in multiples of 4 frames."""
    total = _frame_count(clip)
    count = -(-total // _PIECE_FRAMES)
    length = -(-total // (4 * count)) * 4
    return [(begin, min(begin + length, total)) for begin in range(0, total, length)]


def _frames(clip: RatedClip, first: int, last: int) -> NDArray[np.float32]:
    """Return the frames from `first` to `last`, shape (last - first, 320)."""
    span = clip.samples[first * _HOP : (last - 1) * _HOP + _FRAME]
    return np.ascontiguousarray(sliding_window_view(span, _FRAME)[::_HOP])


def _cut_p835(path: Path) -> tuple[Any, Any]:
    """Return the P.835 network's front (frames to pooled frames) and back (pooled frames to ratings)."""
    import onnx

    try:
        model = onnx.shape_inference.infer_shapes(onnx.load(path))
        front = _part(model, _FRAMES_TENSOR, _QUARTERS_TENSOR, ("strips", "frames", _FRAME))
        back = _part(model, _QUARTERS_TENSOR, _RATINGS_TENSOR, ("windows", 32, _WINDOW_FRAMES // 4, 40))
    except (ValueError, onnx.onnx_cpp2py_export.checker.ValidationError) as error:
        raise JudgeError(f"{path}: cannot load the DNSMOS P.835 network: {error}") from error
    return _session(front), _session(back)


def _part(model: onnx.ModelProto, source: str, target: str, shape: Sequence[str | int]) -> bytes:
    """Return the part of a network between two tensors; names in the input `shape` are dynamic sizes."""
    from onnx.helper import make_tensor_type_proto
    from onnx.utils import Extractor

    part = Extractor(model).extract_model([source], [target])
    part.graph.input[0].type.CopyFrom(make_tensor_type_proto(1, shape))
    # The declared shapes apply to a full window.
    part.graph.output[0].type.tensor_type.ClearField("shape")
    del part.graph.value_info[:]
    return bytes(part.SerializeToString())


def _session(model: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
