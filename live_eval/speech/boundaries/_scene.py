"""Prepare a recording for the search: compute levels in auditory bands, and estimate the background."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio, resample
from live_eval.speech.boundaries._background import SCALES

# Sounds this far below the voice are never the speaker's: codec noise, reverberation tails.
DEPTH_DB = 42.0
# Probabilities above SPEECH mean speech, those below NO_SPEECH none; silero's defaults are 0.5 and 0.35.
SPEECH, NO_SPEECH = 0.5, 0.2
WINDOW_S = 0.032
# Minimum number of frames (160 ms) to model a background.
FEWEST_QUIET = 40

# If the quietest frames are this far below the voice, the background is negligible.
_CLEAN_DB = 32.0
_QUIETEST_PERCENT = 2
# Frames this far below the voice are padding, such as digital silence.
_PADDING_DB = 50.0
# Frames this close to speech do not count as background, because the network detects changes late.
_APART_FRAMES = 40
_ENOUGH_FRAMES = 75
_STEADY_DB = 6.0
_RISE_DB, _DOUBTFUL_RISE_DB = 2.0, 5.0
_LATE_FRAMES = 40

_BANDS = 20
_BAND_S, _HOP_S = 0.016, 0.004
# Audio is downsampled to this rate, because speech has hardly any energy above half of it.
_TOP_RATE_HZ = 24_000
_FFT_SIZE = 512
_BLOCK_FRAMES = 4_096  # limits the memory for long recordings
_TOP_HZ, _BOTTOM_HZ = 11_000.0, 80.0


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A recording prepared for the search. Arrays have shape (frames,) or, if by band, (frames, bands)."""

    power: NDArray[np.float64]  # power by band, plus a floor DEPTH_DB below the voice
    levels_db: tuple[NDArray[np.float64], ...]  # levels by band, one smoothed array for each of SCALES
    total_db: NDArray[np.float64]  # level in 20 ms, relative to the voice
    floor_db: float  # floor of each band
    quiet: NDArray[np.bool_]  # first estimate of frames with only background; none if below the floor
    doubtful: NDArray[np.bool_]  # second estimate, less strict and without the network
    speech: NDArray[np.bool_]  # voice activity
    voice: float  # mean square of the voice's loud frames
    hop_s: float  # time between frames
    clean: bool  # whether the background is negligible
    aware: bool  # whether the network can separate the voice from the background


def survey(audio: Audio, probabilities: NDArray[np.float32]) -> Scene:
    """Prepare a recording for the search.

    Args:
        audio: Recording with at least one sample that is not zero.
        probabilities: Probability of speech in each 32 ms window, shape (windows,).
    """
    sound = resample(audio, _TOP_RATE_HZ) if audio.rate_hz > _TOP_RATE_HZ else audio
    hop = round(_HOP_S * sound.rate_hz)
    hop_s = hop / sound.rate_hz
    power = _band_power(sound, hop)
    total = _smoothed(power.sum(axis=1)[:, None], 5)[:, 0]
    voice = float(np.percentile(total[total > total.max() * 1e-4], 95))
    total_db = 10 * np.log10(np.maximum(total / voice, 1e-12))
    floor = voice * 10 ** (-DEPTH_DB / 10) / _BANDS
    power = power + floor
    levels_db = tuple(_smoothed(10 * np.log10(power), scale.frames) for scale in SCALES)

    centres_s = (np.arange(len(probabilities)) + 0.5) * WINDOW_S
    probability = np.interp(np.arange(len(total)) * hop_s, centres_s, probabilities)
    apart = ~widened(probability > NO_SPEECH, _APART_FRAMES)

    speech = probability > SPEECH
    core = _without_padding(total_db)
    clean = bool(np.percentile(total_db[core], _QUIETEST_PERCENT) <= -_CLEAN_DB)
    if not clean and (apart & core).sum() < _ENOUGH_FRAMES and (~core).sum() >= _ENOUGH_FRAMES:
        # loud throughout, with silence at both ends: a voice without pauses, rather than in noise
        clean = True
    aware = not clean and bool((apart & core).sum() >= _ENOUGH_FRAMES)
    if clean:
        quiet = total_db <= max(float(np.percentile(total_db, _QUIETEST_PERCENT)) + _STEADY_DB, -DEPTH_DB)
        if quiet.sum() < FEWEST_QUIET:  # without pauses, use the quietest frames
            quiet[:] = False
    else:
        quiet = core & _calm(levels_db, core, _RISE_DB)
        if aware and (apart & quiet).sum() >= _ENOUGH_FRAMES:
            quiet &= apart
    if aware:  # in noise, the network detects the end of speech late
        speech &= np.concatenate((speech[_LATE_FRAMES:], np.zeros(min(_LATE_FRAMES, len(speech)), bool)))
    return Scene(
        power=power,
        levels_db=levels_db,
        total_db=total_db,
        floor_db=float(10 * np.log10(floor)),
        quiet=quiet,
        doubtful=quiet if clean else core & _calm(levels_db, core, _DOUBTFUL_RISE_DB),
        speech=speech,
        voice=voice,
        hop_s=hop_s,
        clean=clean,
        aware=aware,
    )


def widened(mask: NDArray[np.bool_], frames: int) -> NDArray[np.bool_]:
    """Extend each True in `mask` to `frames` neighbours on either side."""
    counts = np.cumsum(np.concatenate(([0], mask)))
    at = np.arange(len(mask))
    return np.asarray(counts[np.minimum(len(mask), at + frames + 1)] > counts[np.maximum(0, at - frames)])


def _band_power(sound: Audio, hop: int) -> NDArray[np.float64]:
    """Return the mean square by band in 16 ms Hann windows, `hop` samples apart, shape (frames, 20).

    Frame k is centred on sample ``k * hop``. The bands start at 80 Hz and are equally wide on the ERB scale
    (Glasberg and Moore, "Derivation of auditory filter shapes from notched-noise data", 1990).
    """
    width = round(_BAND_S * sound.rate_hz)
    window = np.hanning(width + 2)[1:-1]
    bank = _bank(sound.rate_hz) * (2 / (_FFT_SIZE * np.sum(window**2)))
    padded = np.pad(sound.samples, (width // 2, width))
    frames = np.lib.stride_tricks.sliding_window_view(padded, width)[: len(sound.samples) : hop]
    blocks = [
        np.abs(np.fft.rfft(frames[start : start + _BLOCK_FRAMES] * window, _FFT_SIZE, axis=1)) ** 2 @ bank.T
        for start in range(0, len(frames), _BLOCK_FRAMES)
    ]
    return np.vstack(blocks)


def _smoothed(power: NDArray[np.float64], frames: int) -> NDArray[np.float64]:
    """Return the running mean of `power` over `frames` frames around each frame (fewer at the ends)."""
    if frames <= 1:
        return power
    total = np.cumsum(np.vstack([np.zeros((1, power.shape[1])), power]), axis=0)
    at = np.arange(len(power))
    first = np.maximum(0, at - frames // 2)
    last = np.minimum(len(power), at + frames // 2 + 1)
    return np.asarray((total[last] - total[first]) / (last - first)[:, None])


def _bank(rate_hz: int) -> NDArray[np.float64]:
    """Return a mask of the FFT bins in each band, shape (20, bins)."""
    bins_hz = np.fft.rfftfreq(_FFT_SIZE, 1 / rate_hz)
    top_hz = min(_TOP_HZ, 0.49 * rate_hz)
    scale = np.linspace(_erb(_BOTTOM_HZ), _erb(top_hz), _BANDS + 1)
    bounds_hz = (10 ** (scale / 21.4) - 1) / 0.00437
    bank = np.zeros((_BANDS, len(bins_hz)))
    for band, (low_hz, high_hz) in enumerate(pairwise(bounds_hz)):
        inside = (bins_hz >= low_hz) & (bins_hz < high_hz)
        if not inside.any():  # the lowest bands are narrower than a bin
            inside[np.argmin(np.abs(bins_hz - (low_hz + high_hz) / 2))] = True
        bank[band, inside] = 1
    return bank


def _erb(frequency_hz: float) -> float:
    return float(21.4 * np.log10(1 + 0.00437 * frequency_hz))


def _without_padding(total_db: NDArray[np.float64]) -> NDArray[np.bool_]:
    loud = np.flatnonzero(total_db > -_PADDING_DB)
    core = np.zeros(len(total_db), bool)
    core[loud[0] : loud[-1] + 1] = True
    return core


def _calm(
    levels_db: tuple[NDArray[np.float64], ...], core: NDArray[np.bool_], rise_db: float
) -> NDArray[np.bool_]:
    """Return a mask of the frames within about `rise_db` of the quietest quarter."""
    quietest = np.percentile(levels_db[-1][core], 10, axis=0)
    rise = np.clip(levels_db[-2] - quietest, 0, 25).mean(axis=1)
    quarter = float(np.percentile(rise[core], 25))
    return np.asarray(rise <= max(quarter, min(_division(rise[core]), quarter + rise_db)))


def _division(values: NDArray[np.float64]) -> float:
    """Return the threshold that best separates `values` into two groups (Otsu, 1979)."""
    counts, edges = np.histogram(values, 64)
    centres = (edges[1:] + edges[:-1]) / 2
    below, weight = np.cumsum(counts), np.cumsum(counts * centres)
    several = counts.max() < below[-1]
    inside = slice(0, int(np.flatnonzero(below < below[-1])[-1]) + 1 if several else 1)
    share = below[inside] / below[-1]
    between = (weight[-1] * share - weight[inside]) ** 2 / np.maximum(share * (1 - share), 1e-9)
    return float(centres[inside][np.argmax(between)])
